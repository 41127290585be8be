"""Ticks as files: conversion from any feed, a writer for each format, and the check that no output is an input."""
