// MemKvStore and RocksKvStore get the same operations, restarts and crashes, at the same instants
// of one clock. They must give the same answers, stamps, reads, scans and watch events.
//
// KV_FUZZ_ROUNDS=100000 KV_FUZZ_SEED=7 runs longer with another seed.

#include <stdlib.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/conformance/kv_fuzz_plan.h"
#include "tests/conformance/kv_fuzz_side.h"

namespace escapement::kv {
namespace kv_differential_test {

struct Counts {
  uint64_t commits = 0;
  uint64_t applied = 0;
  uint64_t resent = 0;
  uint64_t scans = 0;
  uint64_t reads = 0;
  uint64_t watched = 0;
  uint64_t lagged = 0;
  uint64_t restarts = 0;
  uint64_t crashes = 0;
  uint64_t cut_off = 0;  // commits that a crash left undecided
};

class Fuzz {
 public:
  explicit Fuzz(uint64_t seed) : plan_(seed), mem_(seed), rocks_(Followed()) { NewSession(); }

  void Round() {
    mem_.runtime().AdvanceBy(
        absl::Milliseconds(plan_.Below(10) == 0 ? plan_.Below(3000) : plan_.Below(40)));
    clock_.Follow(mem_.runtime().clock());
    if (plan_.Below(50) == 0 && mem_.sessions.size() < 8) NewSession();
    if (plan_.Below(10) == 0) NewWatch();
    if (plan_.Below(20) == 0) MoveSomeEnd();
    const std::vector<Sent> sent = Burst();
    if (plan_.Below(25) == 0) {
      ASSERT_NO_FATAL_FAILURE(Crash(sent));
    } else {
      Compare(sent, Collect(mem_, Send(mem_, sent, 0, sent.size())),
              Collect(rocks_, Send(rocks_, sent, 0, sent.size())));
    }
    CompareWatches(/*untold=*/false);
    for (int i = 0; i < 2; ++i) {
      const ScanRequest scan = plan_.Scan();
      ASSERT_EQ(rocks_.Scan(scan), mem_.Scan(scan));
      ++counts.scans;
    }
    const std::vector<Key> keys = plan_.Keys();
    ASSERT_EQ(rocks_.Get(keys), mem_.Get(keys));
    ++counts.reads;
    if (plan_.Below(40) == 0) Restart(sent);
  }

  // Compares the whole content, at the end.
  void CompareAll() {
    for (size_t i = 0; i < kColumnFamilyCount; ++i) {
      const ScanRequest all{.cf = static_cast<ColumnFamily>(i), .limit = 1 << 20};
      ASSERT_EQ(rocks_.Scan(all), mem_.Scan(all));
    }
  }

  Counts counts;

 private:
  Clock& Followed() {
    clock_.Follow(mem_.runtime().clock());
    return clock_;
  }

  void NewSession() {
    const SessionInfo mem = mem_.OpenSession();
    const SessionInfo rocks = rocks_.OpenSession();
    ASSERT_EQ(rocks.incarnation, mem.incarnation);
    ASSERT_EQ(rocks.seq, mem.seq);
    ASSERT_EQ(rocks.store_time, mem.store_time);
    numbers_.push_back(0);
  }

  std::vector<Sent> Burst() {
    std::vector<Sent> sent;
    for (uint64_t i = 1 + plan_.Below(10); i > 0; --i) {
      sent.push_back(Next());
      old_.push_back(sent.back());
    }
    if (old_.size() > 300) old_.erase(old_.begin(), old_.begin() + 150);
    return sent;
  }

  Sent Next() {
    if (plan_.Below(8) == 0 && !old_.empty()) {
      const Sent& again = old_[plan_.Below(old_.size())];
      ++counts.resent;
      return again;
    }
    Sent sent;
    sent.session = plan_.Below(numbers_.size());
    sent.request = plan_.Commit(seq_, clock_.WallNow());
    uint64_t& number = numbers_[sent.session];
    switch (plan_.Below(40)) {
      case 0:  // an unknown session
        sent.session = numbers_.size() + 1000;
        sent.request.number = 1;
        break;
      case 1:  // a former number with another commit, or one behind the window
        sent.request.number = number > 100 ? number - plan_.Below(100) : number;
        break;
      case 2:  // skips numbers
        number += plan_.Below(80);
        [[fallthrough]];
      default:
        sent.request.number = ++number;
    }
    return sent;
  }

  void Compare(const std::vector<Sent>& sent, const std::vector<std::string>& mem,
               const std::vector<std::string>& rocks) {
    ASSERT_EQ(rocks, mem);
    for (size_t i = 0; i < rocks.size(); ++i) Remember(sent[i], rocks[i]);
  }

  // A commit that has applied always gets its first answer again.
  void Remember(const Sent& sent, const std::string& told) {
    ++counts.commits;
    if (sent.session >= numbers_.size() || told.rfind("seq ", 0) != 0) return;
    const CommitSeq seq = strtoull(told.c_str() + 4, nullptr, 10);
    auto [it, fresh] =
        answers_.try_emplace({sent.session, sent.request.number}, std::make_pair(told, seq > seq_));
    if (fresh) {
      counts.applied += seq > seq_ ? 1 : 0;
    } else if (it->second.second) {
      ASSERT_EQ(told, it->second.first) << "resent";
    } else {
      it->second = {told, seq > seq_};  // decided again after a restart
    }
    seq_ = std::max(seq_, seq);
  }

  // The disk's store ends somewhere in the burst. The store in memory crashes at the same place.
  void Crash(const std::vector<Sent>& sent) {
    ++counts.crashes;
    Answers answers = Send(rocks_, sent, 0, sent.size());
    if (plan_.Below(2) == 0) answers[0].wait();
    rocks_.Close();
    const std::vector<std::string> rocks = Collect(rocks_, std::move(answers));
    size_t decided = 0;
    while (decided < rocks.size() && rocks[decided] != kUnavailable) ++decided;
    counts.cut_off += rocks.size() - decided;
    // In half of the cases the last decided commit becomes durable without being answered.
    const bool kept = decided > 0 && plan_.Below(2) == 0;
    const size_t answered = decided - (kept ? 1 : 0);
    std::vector<std::string> mem = Collect(mem_, Send(mem_, sent, 0, answered));
    Answers cut_off = Send(mem_, sent, answered, sent.size());
    mem_.Crash(kept ? MemKvStore::Unsynced::kKept : MemKvStore::Unsynced::kLost);
    for (std::string& told : Collect(mem_, std::move(cut_off))) {
      ASSERT_EQ(told, kUnavailable);
      mem.push_back(std::move(told));
    }
    if (kept) mem[answered] = rocks[answered];
    Compare(sent, mem, rocks);
    mem_.Restart();
    rocks_.Open();
    Resend(sent, kept);
  }

  void Restart(const std::vector<Sent>& sent) {
    ++counts.restarts;
    mem_.Restart();
    rocks_.Restart();
    Resend(sent, /*untold=*/false);
  }

  // Sends the commits again. Applied ones get their first answers, the rest are decided again.
  // `untold`: the crashed store had not answered the last commit to anyone.
  void Resend(const std::vector<Sent>& sent, bool untold) {
    for (size_t i = 0; i < mem_.logs.size(); ++i) {
      const auto mem = mem_.logs[i].WaitForLag();
      const auto rocks = rocks_.logs[i].WaitForLag();
      ASSERT_TRUE(mem.has_value() && rocks.has_value());
      ASSERT_EQ(Tell(*rocks), Tell(*mem));
      ++counts.lagged;
    }
    CompareWatches(untold);
    for (Side* side : {static_cast<Side*>(&mem_), static_cast<Side*>(&rocks_)}) {
      side->watches.clear();
      side->logs.clear();
    }
    told_.clear();
    const auto mem = Collect(mem_, Send(mem_, sent, 0, sent.size()));
    Compare(sent, mem, Collect(rocks_, Send(rocks_, sent, 0, sent.size())));
  }

  void NewWatch() {
    if (mem_.logs.size() >= 6) {
      for (Side* side : {static_cast<Side*>(&mem_), static_cast<Side*>(&rocks_)}) {
        side->watches.erase(side->watches.begin());
        side->logs.erase(side->logs.begin());
      }
      told_.clear();
    }
    const WatchRequest request = plan_.Watch(seq_);
    const size_t excluded = plan_.Below(2) == 0 ? plan_.Below(numbers_.size()) : SIZE_MAX;
    mem_.Watch(request, excluded);
    rocks_.Watch(request, excluded);
  }

  void MoveSomeEnd() {
    if (mem_.watches.empty()) return;
    const size_t i = plan_.Below(mem_.watches.size());
    const size_t range = plan_.Below(4);
    const std::string end = plan_.Watch(0).end;
    mem_.watches[i]->MoveEnd(range, end);
    rocks_.watches[i]->MoveEnd(range, end);
    mem_.Settle();
  }

  void CompareWatches(bool untold) {
    for (size_t i = 0; i < mem_.logs.size(); ++i) {
      const size_t count = mem_.logs[i].WaitFor(0).size();
      rocks_.logs[i].WaitFor(count);
      auto rocks_seqs = rocks_.logs[i].seqs();
      auto rocks = Tell(rocks_.logs[i]);
      if (untold && rocks.size() > count) {
        ASSERT_EQ(rocks_seqs.back(), seq_);
        rocks_seqs.pop_back();
        rocks.resize(count);
      }
      ASSERT_EQ(rocks_seqs, mem_.logs[i].seqs());
      ASSERT_EQ(rocks, Tell(mem_.logs[i]));
      counts.watched += count - std::min(count, told_[i]);
      told_[i] = count;
    }
  }

  SharedClock clock_;
  KvFuzzPlan plan_;
  MemSide mem_;
  RocksSide rocks_;
  CommitSeq seq_ = 0;
  std::vector<uint64_t> numbers_;  // highest number of each session
  std::vector<Sent> old_;
  // First answer of each commit, and whether it applied.
  std::map<std::pair<size_t, uint64_t>, std::pair<std::string, bool>> answers_;
  std::map<size_t, size_t> told_;
};

void Print(const Counts& counts) {
  std::printf(
      "%llu commits (%llu applied, %llu resent, %llu cut off), %llu scans, %llu reads, %llu "
      "watched mutations, %llu watches ended, %llu restarts, %llu crashes\n",
      static_cast<unsigned long long>(counts.commits),
      static_cast<unsigned long long>(counts.applied),
      static_cast<unsigned long long>(counts.resent),
      static_cast<unsigned long long>(counts.cut_off),
      static_cast<unsigned long long>(counts.scans), static_cast<unsigned long long>(counts.reads),
      static_cast<unsigned long long>(counts.watched),
      static_cast<unsigned long long>(counts.lagged),
      static_cast<unsigned long long>(counts.restarts),
      static_cast<unsigned long long>(counts.crashes));
}

uint64_t Number(const char* name, uint64_t otherwise) {
  const char* text = getenv(name);
  return text == nullptr ? otherwise : strtoull(text, nullptr, 10);
}

class KvDifferential : public testing::TestWithParam<uint64_t> {};

TEST_P(KvDifferential, BothStoresAnswerAlike) {
  const uint64_t seed = Number("KV_FUZZ_SEED", 0) + GetParam();
  const uint64_t rounds = Number("KV_FUZZ_ROUNDS", 500);
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  Fuzz fuzz(seed);
  for (uint64_t round = 0; round < rounds; ++round) {
    SCOPED_TRACE(absl::StrCat("round ", round));
    ASSERT_NO_FATAL_FAILURE(fuzz.Round());
    if (HasFatalFailure()) return;
  }
  fuzz.CompareAll();
  Print(fuzz.counts);
  EXPECT_GT(fuzz.counts.applied, rounds);
  EXPECT_GT(fuzz.counts.watched, rounds / 4);
  EXPECT_GT(fuzz.counts.crashes, rounds / 50);
}

INSTANTIATE_TEST_SUITE_P(Seeds, KvDifferential, testing::Range<uint64_t>(1, 4));

}  // namespace kv_differential_test
}  // namespace escapement::kv
