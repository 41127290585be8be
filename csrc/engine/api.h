/* The engine's API for the binding, tests and benchmarks. */
#ifndef SD_ENGINE_API_H
#define SD_ENGINE_API_H

#include "emit/writer.h"
#include "engine/describe.h"
#include "engine/dispatcher.h"
#include "engine/finish.h"
#include "engine/inspect.h"
#include "engine/saved.h"
#include "merge/merge.h"
#include "merge/rounds.h"
#include "numbering/failure.h"
#include "numbering/watermark.h"
#include "publish/publish.h"
#include "worker/alarm.h"
#include "worker/call.h"
#include "worker/free_task.h"
#include "worker/overdue.h"
#include "worker/py_batch.h"
#include "worker/py_emit.h"
#include "worker/py_worker.h"
#include "worker/submit.h"
#include "worker/suspend.h"
#include "worker/task.h"
#include "worker/visit.h"
#include "worker/worker.h"
#include "worker/yield.h"

#endif
