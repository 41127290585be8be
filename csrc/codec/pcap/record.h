/* Records of capture files, and the UDP payloads in them. For the decoder's own files. */
#pragma once

#include "codec/pcap/state.h"

typedef struct sd_pcap_record {
  const uint8_t *data; /* NULL: the record has no packet */
  uint32_t captured;   /* bytes at data */
  uint32_t length;     /* bytes that the packet had */
  uint32_t link;
  uint64_t ts; /* ns since the epoch */
} sd_pcap_record;

/* The record at p[0 .. left): *used bytes. SD_OK, SD_AGAIN (not all there), or SD_E_FORMAT with pcap->fault's kind and
 * value set. */
int sd_pcap_next_record(sd_pcap *pcap, const uint8_t *p, uint64_t left, sd_pcap_record *record, uint64_t *used);

/* Finds the next place in p[0 .. left) at which two records in a row, or one that ends the input, are plausible; returns how far it is.
 * Sets *found. Otherwise more bytes are needed from that place on, or, with `last`, there is none. */
uint64_t sd_pcap_find_record(sd_pcap *pcap, const uint8_t *p, uint64_t left, int last, int *found);

typedef enum sd_pcap_content {
  SD_PCAP_UDP,
  SD_PCAP_OTHER,
  SD_PCAP_FRAGMENT,
  SD_PCAP_SNAPPED, /* the packet is cut off; what is left of it may be UDP */
  SD_PCAP_NO_LINK  /* an unknown link type */
} sd_pcap_content;

typedef struct sd_pcap_datagram {
  const uint8_t *payload;
  uint32_t length;
  uint32_t port; /* the destination's; 65536: not there */
} sd_pcap_datagram;

sd_pcap_content sd_pcap_open_packet(const sd_pcap_record *record, sd_pcap_datagram *datagram);
