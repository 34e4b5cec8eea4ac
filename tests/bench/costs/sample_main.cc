// sample_main: does known work after each line of its stdin, and then prints "done". A test of
// CostMeter compares what it measured. The work is that of a thread named "worker".
//
//   sample_main ALLOCATIONS COPIES SYSCALLS WAKES SLEEPS: allocations of 100 bytes, copies of 64
//   bytes, getppid, wakes of a futex for which nobody waits, and sleeps

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <thread>

namespace {

// The compiler cannot see that nobody reads what is written to it.
char to[64];

__attribute__((noinline)) void Keep(void* pointer) { asm volatile("" : : "g"(pointer) : "memory"); }

void Work(char** counts) {
  const auto times = [counts](int i) { return std::strtoull(counts[i], nullptr, 10); };
  char from[64] = {};
  volatile size_t bytes = sizeof(to);  // keeps the copy a call
  static uint32_t futex;
  for (uint64_t i = 0; i < times(1); ++i) {
    void* memory = i % 2 == 0 ? std::malloc(100) : ::operator new(100);
    Keep(memory);
    i % 2 == 0 ? std::free(memory) : ::operator delete(memory);
  }
  for (uint64_t i = 0; i < times(2); ++i) {
    std::memcpy(to, from, bytes);
    Keep(to);
  }
  for (uint64_t i = 0; i < times(3); ++i) syscall(SYS_getppid);
  for (uint64_t i = 0; i < times(4); ++i)
    syscall(SYS_futex, &futex, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  for (uint64_t i = 0; i < times(5); ++i) {
    const timespec time = {.tv_sec = 0, .tv_nsec = 1000};
    nanosleep(&time, nullptr);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  std::thread worker([argv] {
    pthread_setname_np(pthread_self(), "worker-17");
    std::cout << "ready" << std::endl;
    for (std::string line; std::getline(std::cin, line);) {
      Work(argv);
      std::cout << "done" << std::endl;
    }
  });
  worker.join();
}
