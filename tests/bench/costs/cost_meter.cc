#include "tests/bench/costs/cost_meter.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "tests/bench/costs/counts.h"
#include "tests/bench/figures/machine.h"

namespace escapement::bench {
namespace {

constexpr absl::Duration kPerfMax = absl::Seconds(30);
constexpr char kEnded[] = "(ended)";
constexpr char kSyscallsEvent[] = "raw_syscalls:sys_enter";
constexpr char kFutexEvent[] = "syscalls:sys_enter_futex";
// FUTEX_WAKE, FUTEX_WAKE_OP and FUTEX_WAKE_BITSET, each also with FUTEX_PRIVATE_FLAG.
constexpr char kWakes[] = "op == 1 || op == 5 || op == 10 || op == 129 || op == 133 || op == 138";

std::string ContentOf(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// "kv-client-3" → "kv-client", "master-421cac17" → "master".
std::string KindOf(absl::string_view thread) {
  thread = absl::StripAsciiWhitespace(thread);
  const size_t end = thread.find_last_not_of("0123456789");
  if (end == absl::string_view::npos) return std::string(thread);
  const size_t dash = thread.rfind('-');
  const bool id = dash != absl::string_view::npos && thread.size() - dash > 6 &&
                  thread.find_first_not_of("0123456789abcdef", dash + 1) == absl::string_view::npos;
  thread = thread.substr(0, id ? dash : end + 1);
  while (absl::EndsWith(thread, "-") || absl::EndsWith(thread, ".")) thread.remove_suffix(1);
  return std::string(thread);
}

// The counts of a process; null if there are none.
class CountsFile {
 public:
  explicit CountsFile(const std::string& path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    void* memory = mmap(nullptr, sizeof(Counts), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (memory != MAP_FAILED) counts_ = static_cast<const Counts*>(memory);
  }
  ~CountsFile() {
    if (counts_ != nullptr) munmap(const_cast<Counts*>(counts_), sizeof(Counts));
  }
  CountsFile(const CountsFile&) = delete;
  CountsFile& operator=(const CountsFile&) = delete;

  const Counts* get() const { return counts_; }

 private:
  const Counts* counts_ = nullptr;
};

void AddCounts(const ThreadCounts& counts, ThreadCosts& costs) {
  costs.allocations += static_cast<double>(counts.allocations.load());
  costs.allocated_bytes += static_cast<double>(counts.allocated_bytes.load());
  costs.copies += static_cast<double>(counts.copies.load());
  costs.copied_bytes += static_cast<double>(counts.copied_bytes.load());
}

}  // namespace

ThreadCosts& ThreadCosts::operator+=(const ThreadCosts& other) {
  cpu_seconds += other.cpu_seconds;
  voluntary += other.voluntary;
  involuntary += other.involuntary;
  syscalls += other.syscalls;
  wakes += other.wakes;
  allocations += other.allocations;
  allocated_bytes += other.allocated_bytes;
  copies += other.copies;
  copied_bytes += other.copied_bytes;
  return *this;
}

ThreadCosts& ThreadCosts::operator-=(const ThreadCosts& other) {
  cpu_seconds -= other.cpu_seconds;
  voluntary -= other.voluntary;
  involuntary -= other.involuntary;
  syscalls -= other.syscalls;
  wakes -= other.wakes;
  allocations -= other.allocations;
  allocated_bytes -= other.allocated_bytes;
  copies -= other.copies;
  copied_bytes -= other.copied_bytes;
  return *this;
}

ThreadCosts Costs::Total() const {
  ThreadCosts total;
  for (const auto& [kind, costs] : by_thread) total += costs;
  return total;
}

ThreadCosts Costs::OfProcess(const std::string& process) const {
  ThreadCosts total;
  for (const auto& [kind, costs] : by_thread) {
    if (kind.first == process) total += costs;
  }
  return total;
}

CostMeter::CostMeter(std::vector<Process> processes, std::string folder, std::string counts_folder)
    : processes_(std::move(processes)),
      folder_(std::move(folder)),
      counts_folder_(std::move(counts_folder)) {}

CostMeter::~CostMeter() = default;

absl::Status CostMeter::Start() {
  const auto pids = absl::StrJoin(processes_, ",", [](std::string* out, const Process& process) {
    absl::StrAppend(out, process.pid);
  });
  for (const char* file : {"/perf.log", "/perf.csv"}) std::filesystem::remove(folder_ + file);
  // It starts counting at "enable" and acknowledges that. --per-thread counts threads that
  // begin later with the one that made them.
  auto perf = integration::ChildProcess::Start(
      {.program = "/usr/bin/perf",
       .arguments = {"stat", "-x", ",", "--per-thread", "--delay", "-1", "--control", "fd:0,1",
                     "-o", folder_ + "/perf.csv", "-p", pids, "-e", kSyscallsEvent, "-e",
                     kFutexEvent, "--filter", kWakes},
       .log = folder_ + "/perf.log",
       .input = true});
  perf_ = perf.ok() ? *std::move(perf) : nullptr;
  if (perf_ != nullptr &&
      !(perf_->WriteLine("enable").ok() && perf_->AwaitLine("ack", kPerfMax).ok()))
    perf_ = nullptr;
  before_ = Read();
  return before_.threads.empty() ? absl::NotFoundError("the processes do not run")
                                 : absl::OkStatus();
}

absl::StatusOr<Costs> CostMeter::Stop() {
  const Reading after = Read();
  Costs costs;
  AddSyscalls(after, costs);
  std::map<std::string, double> of_ended;  // processor time by process
  for (const auto& [process, seconds] : after.cpu_seconds)
    of_ended[process] = seconds - before_.cpu_seconds[process];
  for (const auto& [thread, reading] : after.threads) {
    ThreadCosts more = reading.second;
    if (const auto begun = before_.threads.find(thread); begun != before_.threads.end()) {
      // A thread that has ended has counts only.
      more -= begun->second.second;
      if (reading.first == kEnded) {
        more.cpu_seconds = more.voluntary = more.involuntary = 0;
      }
    }
    of_ended[thread.first] -= more.cpu_seconds;
    costs.by_thread[{thread.first, reading.first}] += more;
  }
  for (const auto& [process, seconds] : of_ended)
    costs.by_thread[{process, kEnded}].cpu_seconds += std::max(0.0, seconds);
  for (const Process& process : processes_) {
    if (CountsFile(absl::StrCat(counts_folder_, "/", process.pid)).get() == nullptr)
      costs.counts_missing = absl::StrCat("counter.so is not loaded into ", process.name);
  }
  return costs;
}

CostMeter::Reading CostMeter::Read() const {
  Reading reading;
  for (const Process& process : processes_) {
    const std::string tasks = absl::StrCat("/proc/", process.pid, "/task");
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(tasks, error)) {
      const std::string path = entry.path().string();
      pid_t thread = 0;
      uint64_t nanos = 0;
      const std::string used = ContentOf(path + "/schedstat");
      if (!absl::SimpleAtoi(entry.path().filename().string(), &thread) ||
          !absl::SimpleAtoi(used.substr(0, used.find(' ')), &nanos))
        continue;  // it has just ended
      ThreadCosts costs;
      costs.cpu_seconds = static_cast<double>(nanos) / 1e9;
      costs.voluntary = static_cast<double>(ProcValue(path + "/status", "voluntary_ctxt_switches"));
      costs.involuntary =
          static_cast<double>(ProcValue(path + "/status", "nonvoluntary_ctxt_switches"));
      reading.threads[{process.name, thread}] = {KindOf(ContentOf(path + "/comm")), costs};
    }
    if (error) continue;  // the process has ended
    reading.cpu_seconds[process.name] = CpuSecondsOf(process.pid);
    const CountsFile file(absl::StrCat(counts_folder_, "/", process.pid));
    if (file.get() == nullptr) continue;
    const size_t places = std::min<size_t>(file.get()->threads.load(), Counts::kThreadsMax);
    for (size_t i = 0; i < places; ++i) {
      const ThreadCounts& counts = file.get()->of_thread[i];
      auto& [kind, costs] = reading.threads[{process.name, counts.thread.load()}];
      if (kind.empty()) kind = kEnded;
      AddCounts(counts, costs);
    }
  }
  return reading;
}

void CostMeter::AddSyscalls(const Reading& reading, Costs& costs) const {
  if (perf_ != nullptr && perf_->WriteLine("disable").ok() &&
      perf_->AwaitLine("", kPerfMax).ok()) {  // "ack" again, behind the NUL of the first
    perf_->Signal(SIGINT);
    perf_->Wait(kPerfMax).IgnoreError();
  }
  std::map<pid_t, ThreadKind> kinds;
  for (const auto& [thread, known] : reading.threads)
    kinds[thread.second] = {thread.first, known.first};
  std::map<ThreadKind, ThreadCosts> counts;
  std::set<std::string> counted;  // events
  for (absl::string_view line : absl::StrSplit(ContentOf(folder_ + "/perf.csv"), '\n')) {
    // nexting_thread-28390,5353,,raw_syscalls:sys_enter,…
    const std::vector<absl::string_view> fields = absl::StrSplit(line, ',');
    pid_t thread = 0;
    double count = 0;
    if (fields.size() < 4 ||
        !absl::SimpleAtoi(fields[0].substr(fields[0].rfind('-') + 1), &thread) ||
        !absl::SimpleAtod(fields[1], &count))
      continue;
    const auto kind = kinds.find(thread);
    if (kind == kinds.end()) continue;
    // Without privileges perf counts "EVENTu" instead, in user space only, where there are none.
    if (fields[3] != kSyscallsEvent && fields[3] != kFutexEvent) continue;
    counted.emplace(fields[3]);
    ThreadCosts& of_kind = counts[kind->second];
    (fields[3] == kSyscallsEvent ? of_kind.syscalls : of_kind.wakes) += count;
  }
  if (counted.size() == 2) {
    for (const auto& [kind, of_kind] : counts) costs.by_thread[kind] += of_kind;
    return;
  }
  costs.syscalls_missing =
      absl::StrCat("perf did not count ", kSyscallsEvent, " and ", kFutexEvent, ": ",
                   absl::StripAsciiWhitespace(ContentOf(folder_ + "/perf.log")));
}

}  // namespace escapement::bench
