// Counts a process's allocations and copies. It is loaded before the process's libraries
// (LD_PRELOAD), so the process itself is the one that users run.
//
// It sees calls from the program and from its libraries. It does not see copies that the compiler
// has inlined, or those inside libc and the kernel. Each call costs some two nanoseconds more.
//
// Threads: any. Each thread has counts of its own.

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "tests/bench/costs/counts.h"

namespace {

using escapement::bench::Counts;
using escapement::bench::ThreadCounts;

Counts* all_counts = nullptr;  // null until the file exists, or if there is none
ThreadCounts nowhere;          // counts of that time

// initial-exec: the first access by a thread must not allocate.
__attribute__((tls_model("initial-exec"))) thread_local ThreadCounts* own_counts = nullptr;

ThreadCounts& TakePlace() {
  if (all_counts == nullptr) return nowhere;
  const uint32_t place = all_counts->threads.fetch_add(1);
  own_counts =
      &all_counts->of_thread[place < Counts::kThreadsMax ? place : Counts::kThreadsMax - 1];
  own_counts->thread = static_cast<int32_t>(syscall(SYS_gettid));
  return *own_counts;
}

ThreadCounts& Own() { return own_counts != nullptr ? *own_counts : TakePlace(); }

void Add(std::atomic<uint64_t>& count, uint64_t more) {
  count.store(count.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
}

void CountAllocation(size_t bytes) {
  ThreadCounts& own = Own();
  Add(own.allocations, 1);
  Add(own.allocated_bytes, bytes);
}

void CountCopy(size_t bytes) {
  ThreadCounts& own = Own();
  Add(own.copies, 1);
  Add(own.copied_bytes, bytes);
}

// The function that the process would have without this library.
template <typename Function>
Function Next(const char* name, Function& known) {
  if (known == nullptr) known = reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
  return known;
}

__attribute__((constructor)) void OpenFile() {
  const char* folder = std::getenv(escapement::bench::kCountsFolder);
  if (folder == nullptr) return;
  char path[4096];
  std::snprintf(path, sizeof(path), "%s/%d", folder, static_cast<int>(getpid()));
  const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ftruncate(file, sizeof(Counts)) != 0) return;
  void* memory = mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory != MAP_FAILED) all_counts = static_cast<Counts*>(memory);
}

using Allocate = void* (*)(size_t);
using AllocateAligned = void* (*)(size_t, std::align_val_t);
using AllocateOrNull = void* (*)(size_t, const std::nothrow_t&);
using AllocateAlignedOrNull = void* (*)(size_t, std::align_val_t, const std::nothrow_t&);

}  // namespace

extern "C" {

void* malloc(size_t bytes) {
  static Allocate next;
  CountAllocation(bytes);
  return Next("malloc", next)(bytes);
}
void* calloc(size_t count, size_t bytes) {
  static void* (*next)(size_t, size_t);
  CountAllocation(count * bytes);
  return Next("calloc", next)(count, bytes);
}
void* realloc(void* old, size_t bytes) {
  static void* (*next)(void*, size_t);
  CountAllocation(bytes);
  return Next("realloc", next)(old, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  static void* (*next)(size_t, size_t);
  CountAllocation(bytes);
  return Next("aligned_alloc", next)(alignment, bytes);
}
int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  static int (*next)(void**, size_t, size_t);
  CountAllocation(bytes);
  return Next("posix_memalign", next)(memory, alignment, bytes);
}
void* memcpy(void* to, const void* from, size_t bytes) {
  static void* (*next)(void*, const void*, size_t);
  CountCopy(bytes);
  return Next("memcpy", next)(to, from, bytes);
}
void* memmove(void* to, const void* from, size_t bytes) {
  static void* (*next)(void*, const void*, size_t);
  CountCopy(bytes);
  return Next("memmove", next)(to, from, bytes);
}
void* mempcpy(void* to, const void* from, size_t bytes) {
  static void* (*next)(void*, const void*, size_t);
  CountCopy(bytes);
  return Next("mempcpy", next)(to, from, bytes);
}

// Calls of the three by code that is compiled with _FORTIFY_SOURCE.
void* __memcpy_chk(void* to, const void* from, size_t bytes, size_t room) {
  static void* (*next)(void*, const void*, size_t, size_t);
  CountCopy(bytes);
  return Next("__memcpy_chk", next)(to, from, bytes, room);
}
void* __memmove_chk(void* to, const void* from, size_t bytes, size_t room) {
  static void* (*next)(void*, const void*, size_t, size_t);
  CountCopy(bytes);
  return Next("__memmove_chk", next)(to, from, bytes, room);
}
void* __mempcpy_chk(void* to, const void* from, size_t bytes, size_t room) {
  static void* (*next)(void*, const void*, size_t, size_t);
  CountCopy(bytes);
  return Next("__mempcpy_chk", next)(to, from, bytes, room);
}

}  // extern "C"

// The names are those of the compiler's encoding of each operator.

void* operator new(size_t bytes) {
  static Allocate next;
  CountAllocation(bytes);
  return Next("_Znwm", next)(bytes);
}
void* operator new[](size_t bytes) {
  static Allocate next;
  CountAllocation(bytes);
  return Next("_Znam", next)(bytes);
}
void* operator new(size_t bytes, const std::nothrow_t& none) noexcept {
  static AllocateOrNull next;
  CountAllocation(bytes);
  return Next("_ZnwmRKSt9nothrow_t", next)(bytes, none);
}
void* operator new[](size_t bytes, const std::nothrow_t& none) noexcept {
  static AllocateOrNull next;
  CountAllocation(bytes);
  return Next("_ZnamRKSt9nothrow_t", next)(bytes, none);
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  static AllocateAligned next;
  CountAllocation(bytes);
  return Next("_ZnwmSt11align_val_t", next)(bytes, alignment);
}
void* operator new[](size_t bytes, std::align_val_t alignment) {
  static AllocateAligned next;
  CountAllocation(bytes);
  return Next("_ZnamSt11align_val_t", next)(bytes, alignment);
}
void* operator new(size_t bytes, std::align_val_t alignment, const std::nothrow_t& none) noexcept {
  static AllocateAlignedOrNull next;
  CountAllocation(bytes);
  return Next("_ZnwmSt11align_val_tRKSt9nothrow_t", next)(bytes, alignment, none);
}
void* operator new[](size_t bytes, std::align_val_t alignment,
                     const std::nothrow_t& none) noexcept {
  static AllocateAlignedOrNull next;
  CountAllocation(bytes);
  return Next("_ZnamSt11align_val_tRKSt9nothrow_t", next)(bytes, alignment, none);
}
