/* The life of a thread of Python. An exception that another thread raises in it may end any Python code, the first line of a function
 * too; so no Python code can keep a thread alive through all of them, and this does. */
#pragma once

/* cffi: begin */
/* Calls `step` with the thread until it returns another number than 0. One that raises returns 0. */
void sd_thread_live(int (*step)(void *), void *thread);
/* cffi: end */
