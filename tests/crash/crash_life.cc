#include "tests/crash/crash_life.h"

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/key_codec.h"
#include "common/base/status_macros.h"
#include "common/kv/layout.h"
#include "tests/conformance/rigs/awaited.h"
#include "tests/crash/store_history.h"
#include "tests/crash/workload.h"

namespace escapement::crash {
namespace {

namespace fs = std::filesystem;
using kv::CommitResult;
using kv::RocksKvStore;
using kv::SessionInfo;

constexpr absl::Duration kPatience = absl::Seconds(30);

absl::StatusOr<CommitResult> SendCommit(kv::KvStore& store,
                                        std::shared_ptr<const kv::CommitRequest> request) {
  kv::Awaited<CommitResult> answer;
  store.Commit(std::move(request), answer.callback());
  return answer.Wait();
}

absl::StatusOr<SessionInfo> OpenSession(kv::KvStore& store, uint64_t incarnation,
                                        kv::CommitSeq seen) {
  kv::Awaited<SessionInfo> answer;
  store.OpenSession(incarnation, seen, answer.callback());
  return answer.Wait();
}

// "" if the answer agrees with the history.
std::string Disagreement(const StoreHistory::Entry& entry,
                         const absl::StatusOr<CommitResult>& answer) {
  if (entry.fenced) {
    return absl::IsFailedPrecondition(answer.status()) ? "" : "a fence that fails was let pass";
  }
  if (!answer.ok()) return answer.status().ToString();
  if (answer->seq != entry.seq)
    return absl::StrCat("commit ", entry.seq, " was answered as ", answer->seq);
  if (answer->store_time != entry.store_time)
    return absl::StrCat("commit ", entry.seq, " has another time");
  if (answer->verdicts.size() != entry.verdicts.size())
    return absl::StrCat("commit ", entry.seq, " has another number of verdicts");
  for (size_t i = 0; i < entry.verdicts.size(); ++i) {
    if (answer->verdicts[i].applied != entry.verdicts[i].applied ||
        answer->verdicts[i].failed_condition != entry.verdicts[i].failed_condition) {
      return absl::StrCat("commit ", entry.seq, ", group ", i, " was decided otherwise");
    }
  }
  return "";
}

// Answers of applied commits that the sessions still remember, the latest first.
std::vector<const StoreHistory::Entry*> Remembered(const StoreHistory& history, kv::CommitSeq seq) {
  std::set<std::pair<uint64_t, uint64_t>> slots;
  std::vector<const StoreHistory::Entry*> found;
  for (auto it = history.entries().rbegin(); it != history.entries().rend(); ++it) {
    if (!it->applied || it->seq > seq) continue;
    const kv::CommitRequest& request = *it->request;
    if (slots.emplace(request.session, request.number % kv::kSessionWindow).second)
      found.push_back(&*it);
    if (found.size() == 6) break;
  }
  return found;
}

// Makes the commits of a life. It writes to `known` only while the store has not ended: the end may
// come on another thread than the writer's, since the witness has its own.
class Driver {
 public:
  Driver(RocksKvStore& store, StoreEnd& end, DiskRecord& record, ManualClock& clock,
         const LifeOptions& options, Known* known)
      : store_(store),
        end_(end),
        record_(record),
        clock_(clock),
        bursts_(options.bursts),
        workload_(options.seed),
        known_(*known) {}

  void Begin() { Opening(); }

  // Waits until all commits are answered. Returns what was wrong.
  std::string Wait() {
    absl::MutexLock lock(&mu_);
    if (!mu_.AwaitWithTimeout(absl::Condition(&done_), kPatience))
      return "the store does not answer";
    return problem_;
  }

 private:
  // The callbacks run on the writer's thread.
  void Opening() {
    clock_.Advance(absl::Microseconds(900));
    const size_t entry = known_.history.entries().size();
    end_.UnlessEnded([&] { known_.history.OpenSession(clock_.WallNow()); });
    const kv::CommitSeq seen =
        known_.incarnation == 0 ? 0 : known_.history.SeqAfter(known_.answers);
    store_.OpenSession(known_.incarnation, seen, [this, entry](absl::StatusOr<SessionInfo> info) {
      if (absl::IsUnavailable(info.status())) return;
      if (!info.ok()) return Finish(info.status().ToString());
      end_.UnlessEnded([&] {
        known_.history.Opened(entry, info->session);
        known_.incarnation = info->incarnation;
        Answered(entry);
      });
      session_ = info->session;
      number_ = 0;
      Burst();
    });
  }

  void Burst() {
    if (bursts_-- <= 0) return Finish("");
    if (workload_.Below(25) == 0) return Opening();
    clock_.Advance(absl::Milliseconds(1 + workload_.Below(20)));
    const uint64_t count = 1 + workload_.Below(workload_.Below(3) == 0 ? 12 : 3);
    for (uint64_t i = 0; i < count; ++i) {
      auto request = std::make_shared<const kv::CommitRequest>(
          workload_.Commit(known_.history.state(), session_, ++number_));
      const size_t entry = known_.history.entries().size();
      end_.UnlessEnded([&] { known_.history.Commit(request, clock_.WallNow()); });
      store_.Commit(request,
                    [this, entry, last = i + 1 == count](absl::StatusOr<CommitResult> answer) {
                      if (absl::IsUnavailable(answer.status())) return;
                      std::string problem = Disagreement(known_.history.entries()[entry], answer);
                      if (!problem.empty()) return Finish(absl::StrCat("while running: ", problem));
                      end_.UnlessEnded([&] { Answered(entry); });
                      if (last) Burst();
                    });
    }
  }

  void Answered(size_t entry) {
    known_.answers = entry + 1;
    record_.Answers(known_.answers);
  }

  void Finish(std::string problem) {
    absl::MutexLock lock(&mu_);
    if (problem_.empty()) problem_ = std::move(problem);
    done_ = true;
  }

  RocksKvStore& store_;
  StoreEnd& end_;
  DiskRecord& record_;
  ManualClock& clock_;
  absl::Mutex mu_;
  int bursts_;
  Workload workload_;
  Known& known_;
  uint64_t session_ = 0;
  uint64_t number_ = 0;
  bool done_ = false;
  std::string problem_;
};

}  // namespace

Scratch::Scratch() {
  for (const char* base : {"/dev/shm", static_cast<const char*>(getenv("TEST_TMPDIR")), "/tmp"}) {
    if (base == nullptr) continue;
    std::string path = absl::StrCat(base, "/escapement-crash-XXXXXX");
    if (mkdtemp(path.data()) == nullptr) continue;
    path_ = path;
    return;
  }
}
Scratch::~Scratch() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

RocksKvStore::Options StoreOptions(const std::string& folder) {
  RocksKvStore::Options options;
  options.data_dir = folder;
  options.lease_ttl = absl::ZeroDuration();
  options.layout = {1, 1, 1};
  options.free_bytes_min = 0;
  options.read_threads = 1;
  options.recent_slots_log2 = 8;
  options.watch_history_bytes_max = 64 << 10;
  options.block_cache_bytes = 1 << 20;
  options.write_buffer_bytes = 64 << 10;
  options.witness_interval = absl::Milliseconds(2);
  return options;
}

absl::StatusOr<State> ReadState(kv::KvStore& store) {
  State state;
  for (size_t i = 0; i < state.size(); ++i) {
    kv::ScanRequest request{
        .cf = static_cast<kv::ColumnFamily>(i), .limit = 1'000'000, .bytes_max = kv::kScanBytesMax};
    while (true) {
      kv::Awaited<kv::ScanResult> answer;
      store.Scan(request, answer.callback());
      ASSIGN_OR_RETURN(auto result, answer.Wait());
      for (kv::Entry& entry : result.entries)
        state[i][entry.key] = std::make_shared<const std::string>(std::move(entry.value));
      if (!result.more) break;
      request.begin = KeyAfter(result.entries.back().key);
    }
  }
  state[static_cast<size_t>(kv::ColumnFamily::kMeta)].erase(std::string(kv::kLayoutKey));
  return state;
}

std::string RecoveryProblem(RocksKvStore& store, const Known& known, kv::CommitSeq* seq) {
  const RocksKvStore::Info info = store.info();
  *seq = info.seq;
  const kv::CommitSeq answered = known.history.SeqAfter(known.answers);
  if (info.seq < answered)
    return absl::StrCat("commit ", answered, " was answered, the data ends at ", info.seq);
  if (info.seq > known.history.seq())
    return absl::StrCat("commit ", info.seq, " has never been sent");
  if (known.incarnation != 0 && info.incarnation != known.incarnation)
    return "the incarnation has changed";
  auto state = ReadState(store);
  if (!state.ok()) return absl::StrCat(kUnreadable, ": ", state.status().ToString());
  const std::string difference = Difference(*state, known.history.StateAt(info.seq));
  if (!difference.empty()) return absl::StrCat("after commit ", info.seq, ": ", difference);
  for (const StoreHistory::Entry* entry : Remembered(known.history, info.seq)) {
    const std::string problem = Disagreement(*entry, SendCommit(store, entry->request));
    if (!problem.empty()) return absl::StrCat("sent again: ", problem);
  }
  if (store.info().seq != info.seq) return "a commit that was sent again has been applied again";
  return "";
}

namespace {

// A life under way. If the store ends its process, this is left to its threads.
struct Living {
  Living(const DiskContent& base, const Known& known, const LifeOptions& options,
         const std::string& folder)
      : options(options), record(base) {
    const auto& entries = known.history.entries();
    if (!entries.empty()) clock.Advance(entries.back().store_time - clock.WallNow());
    clock.Advance(absl::Seconds(1));
    store_options = StoreOptions(folder);
    store_options.file_system =
        std::make_shared<RecordingFileSystem>(folder, record, options.faults);
    store_options.on_fatal = StoreEnd::OnFatal(end);
    result.base = base;
    result.before = known;
    result.after = known;
  }

  const LifeOptions options;
  DiskRecord record;
  ManualClock clock;
  RocksKvStore::Options store_options;
  const std::shared_ptr<StoreEnd> end = std::make_shared<StoreEnd>();
  std::unique_ptr<RocksKvStore> store;
  std::unique_ptr<Driver> driver;
  LifeResult result;
};

void Live(Living& life) {
  LifeResult& result = life.result;
  auto opened = RocksKvStore::Open(life.store_options, life.clock);
  life.end->UnlessEnded([&] { result.opened = opened.status(); });
  if (!opened.ok()) return;
  life.store = *std::move(opened);
  kv::CommitSeq seq = 0;
  std::string problem = RecoveryProblem(*life.store, result.before, &seq);
  life.end->UnlessEnded([&] {
    result.problem = problem;
    result.after.history.Truncate(seq, result.before.answers);
    result.after.answers = result.after.history.entries().size();
    result.recovery = life.record.Operations().size();
    life.record.Answers(result.after.answers);
    if (!problem.empty()) return;
    life.driver = std::make_unique<Driver>(*life.store, *life.end, life.record, life.clock,
                                           life.options, &result.after);
  });
  if (life.driver != nullptr) {
    life.driver->Begin();
    problem = life.driver->Wait();
    life.end->UnlessEnded([&] { result.problem = problem; });
  }
  life.store.reset();
}

}  // namespace

LifeResult RunLife(const DiskContent& base, const Known& known, const LifeOptions& options) {
  Scratch scratch;
  WriteContent(base, scratch.path());
  auto life = std::make_shared<Living>(base, known, options, scratch.path());
  const absl::Status fatal = StoreEnd::Run(life->end, [life] { Live(*life); });
  LifeResult result = life->result;
  result.fatal = fatal;
  result.operations = life->record.Operations();
  return result;
}

Known KnownAt(const LifeResult& life, const CrashImage& image) {
  Known known = image.at < life.recovery ? life.before : life.after;
  known.answers = image.answers;
  if (known.answers == 0) known.incarnation = 0;
  return known;
}

// Checks that the store goes on after its recovery: a new session commits once, and the commit is
// there when the store is opened again.
static std::string GoOnProblem(std::unique_ptr<RocksKvStore> store, const std::string& folder,
                               const Known& known, kv::CommitSeq seq, bool reopen,
                               const std::shared_ptr<StoreEnd>& end, Clock& clock) {
  auto session = OpenSession(*store, known.incarnation,
                             known.incarnation == 0 ? 0 : known.history.SeqAfter(known.answers));
  if (!session.ok()) return session.status().ToString();
  for (uint64_t i = 0; i < known.answers; ++i) {
    const StoreHistory::Entry& entry = known.history.entries()[i];
    if (entry.request == nullptr && entry.session == session->session)
      return absl::StrCat("session ", entry.session, " is given out twice");
  }
  auto request = std::make_shared<kv::CommitRequest>();
  request->session = session->session;
  request->number = 1;
  request->groups.resize(1);
  request->groups[0].mutations.push_back(
      {.cf = kv::ColumnFamily::kEvents, .key = "after", .value = "recovery"});
  auto answer = SendCommit(*store, request);
  if (!answer.ok()) return absl::StrCat("a new commit: ", answer.status().ToString());
  if (answer->seq != seq + 1) return "a new commit has another sequence than the next one";
  if (!reopen) return "";
  store.reset();
  RocksKvStore::Options options = StoreOptions(folder);
  options.on_fatal = StoreEnd::OnFatal(end);
  auto opened = RocksKvStore::Open(options, clock);
  if (!opened.ok()) return absl::StrCat("opened again: ", opened.status().ToString());
  Known later = known;
  later.history.Truncate(seq, known.answers);
  later.history.Commit(request, answer->store_time);
  later.answers = later.history.entries().size();
  later.incarnation = session->incarnation;
  return RecoveryProblem(**opened, later, &seq);
}

ImageVerdict JudgeContent(const DiskContent& content, const Known& known, bool reopen) {
  Scratch scratch;
  WriteContent(content, scratch.path());
  // If the store ends its process, this is left to its threads.
  struct Judging {
    ManualClock clock;
    Known known;
    ImageVerdict verdict;
  };
  auto judging = std::make_shared<Judging>();
  judging->clock.Advance(absl::Hours(1));
  judging->known = known;
  auto end = std::make_shared<StoreEnd>();
  const absl::Status fatal = StoreEnd::Run(end, [judging, end, reopen, folder = scratch.path()] {
    ImageVerdict& verdict = judging->verdict;
    verdict.answered = judging->known.history.SeqAfter(judging->known.answers);
    RocksKvStore::Options options = StoreOptions(folder);
    options.on_fatal = StoreEnd::OnFatal(end);
    auto opened = RocksKvStore::Open(options, judging->clock);
    verdict.opened = opened.status();
    verdict.problem = opened.ok() ? "" : opened.status().ToString();
    if (opened.ok()) verdict.problem = RecoveryProblem(**opened, judging->known, &verdict.seq);
    if (verdict.problem.empty()) {
      verdict.problem = GoOnProblem(*std::move(opened), folder, judging->known, verdict.seq, reopen,
                                    end, judging->clock);
    }
  });
  if (fatal.ok()) return judging->verdict;
  ImageVerdict verdict;
  verdict.ended = fatal;
  verdict.problem = absl::StrCat("the store ended its process: ", fatal.ToString());
  return verdict;
}

}  // namespace escapement::crash
