/* Another tool that NVTX tells of ranges, as a profiler: writes a line for each call into the file
 * OTHER_TOOL_LOG. Handles and numbers that it gives are its own, and it ends the process if it is given
 * others. With MINIMAL it knows pushes, pops and starts of the first table alone, and nothing of handles. */
#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#define EXPORT __attribute__((visibility("default")))

static void say(char const* format, ...) {
  static FILE* log;
  if (log == NULL) log = fopen(getenv("OTHER_TOOL_LOG"), "a");
  if (log == NULL) abort();
  va_list list;
  va_start(list, format);
  vfprintf(log, format, list);
  va_end(list);
  fflush(log);
}

static struct {
  char kind;
  char text[64];
} handles[256];
static unsigned handle_count;

static void* new_handle(char kind, char const* text) {
  handles[handle_count].kind = kind;
  snprintf(handles[handle_count].text, sizeof handles[0].text, "%s", text == NULL ? "(null)" : text);
  return &handles[handle_count++];
}
static char const* text_of(char kind, void* handle) {
  if (handle == NULL) return "(none)";
  size_t const offset = (size_t)((char*)handle - (char*)handles);
  if (offset >= sizeof handles || offset % sizeof handles[0] != 0 ||
      handles[offset / sizeof handles[0]].kind != kind) {
    say("a handle that is not mine\n");
    _exit(99);
  }
  return handles[offset / sizeof handles[0]].text;
}
static void say_event(char const* what, void* domain, nvtxEventAttributes_t const* event) {
  char text[128] = "";
  if (event == NULL || event->size != NVTX_EVENT_ATTRIB_STRUCT_SIZE) {
    snprintf(text, sizeof text, "(no event)");
  } else if (event->messageType == NVTX_MESSAGE_TYPE_ASCII) {
    snprintf(text, sizeof text, "%s", event->message.ascii == NULL ? "(null)" : event->message.ascii);
  } else if (event->messageType == NVTX_MESSAGE_TYPE_REGISTERED) {
    snprintf(text, sizeof text, "%s", text_of('s', (void*)event->message.registered));
  } else {
    snprintf(text, sizeof text, "type %d", event->messageType);
  }
  say("%s %s/%s\n", what, text_of('d', domain), text);
}

static int push_a(char const* message) {
  say("push %.100s\n", message == NULL ? "(null)" : message);
  if (message != NULL && strcmp(message, "pause") == 0) pause();
  return 41;
}
static int push_w(wchar_t const* message) {
  say("push wide %d\n", message == NULL ? -1 : (int)wcslen(message));
  return 42;
}
static int push_ex(nvtxEventAttributes_t const* event) {
  say_event("push", NULL, event);
  return 43;
}
static int pop(void) {
  say("pop\n");
  return 44;
}
static nvtxRangeId_t last_range = 100;
static nvtxRangeId_t start_a(char const* message) {
  say("start %llu %s\n", (unsigned long long)++last_range, message);
  return last_range;
}
static nvtxRangeId_t start_w(wchar_t const* message) {
  say("start %llu wide %d\n", (unsigned long long)++last_range, (int)wcslen(message));
  return last_range;
}
static void end(nvtxRangeId_t range) {
  say("end %llu\n", (unsigned long long)range);
}
static void mark_a(char const* message) {
  say("mark %s\n", message);
}
static int domain_push(void* domain, nvtxEventAttributes_t const* event) {
  say_event("push", domain, event);
  return 45;
}
static int domain_pop(void* domain) {
  say("pop %s\n", text_of('d', domain));
  return 46;
}
static nvtxRangeId_t domain_start(void* domain, nvtxEventAttributes_t const* event) {
  say_event("start", domain, event);
  return ++last_range;
}
static void domain_end(void* domain, nvtxRangeId_t range) {
  say("end %s %llu\n", text_of('d', domain), (unsigned long long)range);
}
static void domain_mark(void* domain, nvtxEventAttributes_t const* event) {
  say_event("mark", domain, event);
}
static void* create_a(char const* name) {
  say("create %s\n", name == NULL ? "(null)" : name);
  return new_handle('d', name);
}
static void* create_w(wchar_t const* name) {
  say("create wide %d\n", (int)wcslen(name));
  return new_handle('d', "wide");
}
static void destroy(void* domain) {
  say("destroy %s\n", text_of('d', domain));
}
static void* register_a(void* domain, char const* text) {
  say("register %s/%s\n", text_of('d', domain), text == NULL ? "(null)" : text);
  return new_handle('s', text);
}
static void* register_w(void* domain, wchar_t const* text) {
  say("register %s/wide %d\n", text_of('d', domain), (int)wcslen(text));
  return new_handle('s', "wide");
}

#define PUT(table, id, function) *(table)[id] = (NvtxFunctionPointer)(function)

EXPORT int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get) {
  NvtxExportTableCallbacks const* const callbacks = (NvtxExportTableCallbacks const*)get(NVTX_ETID_CALLBACKS);
  NvtxFunctionTable core = NULL, core2 = NULL;
  unsigned size = 0;
  if (callbacks == NULL || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &core, &size) ||
      !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &core2, &size))
    return 0;
  say("initialized\n");
  if (getenv("OTHER_TOOL_DECLINES") != NULL) return 0;
  PUT(core, NVTX_CBID_CORE_RangePushA, push_a);
  PUT(core, NVTX_CBID_CORE_RangePop, pop);
  PUT(core, NVTX_CBID_CORE_RangeStartA, start_a);
  PUT(core, NVTX_CBID_CORE_RangeEnd, end);
#ifdef MINIMAL
  PUT(core2, NVTX_CBID_CORE2_DomainRangePushEx, domain_push);
  PUT(core2, NVTX_CBID_CORE2_DomainRangePop, domain_pop);
  (void)push_w, (void)push_ex, (void)start_w, (void)mark_a, (void)domain_start, (void)domain_end,
      (void)domain_mark;
  (void)create_a, (void)create_w, (void)destroy, (void)register_a, (void)register_w;
#else
  PUT(core, NVTX_CBID_CORE_RangePushW, push_w);
  PUT(core, NVTX_CBID_CORE_RangePushEx, push_ex);
  PUT(core, NVTX_CBID_CORE_RangeStartW, start_w);
  PUT(core, NVTX_CBID_CORE_MarkA, mark_a);
  PUT(core2, NVTX_CBID_CORE2_DomainRangePushEx, domain_push);
  PUT(core2, NVTX_CBID_CORE2_DomainRangePop, domain_pop);
  PUT(core2, NVTX_CBID_CORE2_DomainRangeStartEx, domain_start);
  PUT(core2, NVTX_CBID_CORE2_DomainRangeEnd, domain_end);
  PUT(core2, NVTX_CBID_CORE2_DomainMarkEx, domain_mark);
  PUT(core2, NVTX_CBID_CORE2_DomainCreateA, create_a);
  PUT(core2, NVTX_CBID_CORE2_DomainCreateW, create_w);
  PUT(core2, NVTX_CBID_CORE2_DomainDestroy, destroy);
  PUT(core2, NVTX_CBID_CORE2_DomainRegisterStringA, register_a);
  PUT(core2, NVTX_CBID_CORE2_DomainRegisterStringW, register_w);
#endif
  return 1;
}
