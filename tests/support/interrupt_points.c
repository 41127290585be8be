/* A handler of SIGINT that Python calls at each point where it would raise KeyboardInterrupt, and that raises it at chosen
 * ones. A handler in Python would have such points of its own. The declarations are those of Python's stable ABI. */
extern int PyErr_SetInterruptEx(int signal_number);
extern void PyErr_SetNone(void *type);
extern void *PyExc_KeyboardInterrupt;
extern void *PyObject_CallNoArgs(void *callable);
extern void Py_DecRef(void *object);

#define SIGNAL 2

static int is_armed;
static long passed, first_at, second_at;
static void *instead;

/* From the next point on, raises at the points of these numbers, counted from 1. */
void interrupt_points_arm(long first, long second) {
  passed = 0;
  first_at = first;
  second_at = second;
  is_armed = 1;
  PyErr_SetInterruptEx(SIGNAL);
}

/* Calls a Python function at these points instead, which its caller keeps alive; NULL: raises again. */
void interrupt_points_call(void *function) { instead = function; }

/* Returns how many points were passed. */
long interrupt_points_disarm(void) {
  is_armed = 0;
  return passed;
}

int interrupt_points_handle(int signal_number, void *frame) {
  (void)frame;
  if (!is_armed) return 0;
  passed++;
  PyErr_SetInterruptEx(signal_number);
  if (passed != first_at && passed != second_at) return 0;
  if (!instead) {
    PyErr_SetNone(PyExc_KeyboardInterrupt);
    return 0;
  }
  is_armed = 0;
  void *result = PyObject_CallNoArgs(instead);
  if (result) Py_DecRef(result);
  is_armed = 1;
  PyErr_SetInterruptEx(signal_number);
  return 0;
}
