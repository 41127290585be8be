/* The engine as the binding, tests and benchmarks see it. */
#ifndef SD_API_H
#define SD_API_H

#include "sd_call.h"
#include "sd_dispatcher.h"
#include "sd_failure.h"
#include "sd_finish.h"
#include "sd_hand.h"
#include "sd_hand_out.h"
#include "sd_look.h"
#include "sd_output.h"
#include "sd_overdue.h"
#include "sd_publish.h"
#include "sd_python.h"
#include "sd_python_emit.h"
#include "sd_sink.h"
#include "sd_task.h"
#include "sd_task_queue.h"
#include "sd_timer.h"
#include "sd_visit.h"
#include "sd_watermark.h"
#include "sd_worker.h"

#endif
