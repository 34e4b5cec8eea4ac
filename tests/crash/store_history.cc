#include "tests/crash/store_history.h"

#include <unistd.h>

#include <thread>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/key_codec.h"

namespace escapement::crash {

namespace {

[[noreturn]] void Stay() {
  while (true) pause();
}

}  // namespace

std::function<void(const absl::Status&)> StoreEnd::OnFatal(std::shared_ptr<StoreEnd> end) {
  return [end = std::move(end)](const absl::Status& status) { end->End(status); };
}

absl::Status StoreEnd::Run(const std::shared_ptr<StoreEnd>& end, std::function<void()> call) {
  {
    absl::MutexLock lock(&end->mu_);
    end->returned_ = false;
  }
  std::thread thread([end, call = std::move(call)] {
    call();
    end->UnlessEnded([&] { end->returned_ = true; });
  });
  absl::Status fatal;
  {
    absl::MutexLock lock(&end->mu_);
    auto over = [&] { return end->returned_ || !end->fatal_.ok(); };
    end->mu_.Await(absl::Condition(&over));
    fatal = end->fatal_;
  }
  fatal.ok() ? thread.join() : thread.detach();
  return fatal;
}

void StoreEnd::UnlessEnded(const std::function<void()>& write) {
  {
    absl::MutexLock lock(&mu_);
    if (fatal_.ok()) return write();
  }
  Stay();
}

void StoreEnd::End(const absl::Status& status) {
  {
    absl::MutexLock lock(&mu_);
    if (fatal_.ok()) fatal_ = status;
  }
  Stay();
}

namespace {

using kv::Condition;
using kv::Mutation;

const Family& FamilyOf(const State& state, kv::ColumnFamily cf) {
  return state[static_cast<size_t>(cf)];
}

uint64_t CountIn(const Family& family, const std::string& begin, const std::string& end) {
  return static_cast<uint64_t>(std::distance(family.lower_bound(begin), family.lower_bound(end)));
}

}  // namespace

bool StoreHistory::Holds(const State& state, const Condition& condition) {
  const Family& family = FamilyOf(state, condition.cf);
  const auto it = family.find(condition.key);
  switch (condition.kind) {
    case Condition::Kind::kAbsent:
      return it == family.end();
    case Condition::Kind::kPresent:
      return it != family.end();
    case Condition::Kind::kValueEquals:
      return it != family.end() && *it->second == condition.value;
    case Condition::Kind::kValuePrefix:
      return it != family.end() && absl::StartsWith(*it->second, condition.value);
    case Condition::Kind::kRangeCount:
      return CountIn(family, condition.key, condition.value) == condition.number;
    default:
      return false;
  }
}

void StoreHistory::Apply(const Mutation& mutation, absl::Time store_time, State* state) {
  Family& family = (*state)[static_cast<size_t>(mutation.cf)];
  switch (mutation.kind) {
    case Mutation::Kind::kPut:
      family[mutation.key] = std::make_shared<const std::string>(mutation.value);
      break;
    case Mutation::Kind::kDelete:
      family.erase(mutation.key);
      break;
    case Mutation::Kind::kDeleteRange:
      family.erase(family.lower_bound(mutation.key), family.lower_bound(mutation.value));
      break;
    case Mutation::Kind::kPutStamped: {
      std::string stamp;
      AppendBigEndian<uint64_t>(
          &stamp, static_cast<uint64_t>(absl::ToUnixMicros(store_time + mutation.stamp_add)));
      std::string value = mutation.value;
      value.replace(mutation.stamp_offset, stamp.size(), stamp);
      family[mutation.key] = std::make_shared<const std::string>(std::move(value));
      break;
    }
  }
}

const StoreHistory::Entry& StoreHistory::Commit(std::shared_ptr<const kv::CommitRequest> request,
                                                absl::Time store_time) {
  Entry entry;
  entry.seq = seq();
  entry.store_time = store_time;
  for (const Condition& condition : request->fence)
    entry.fenced = entry.fenced || !Holds(state_, condition);
  for (const kv::Group& group : request->groups) {
    if (entry.fenced) break;
    kv::Verdict& verdict = entry.verdicts.emplace_back();
    for (size_t i = 0; i < group.conditions.size(); ++i) {
      if (Holds(state_, group.conditions[i])) continue;
      verdict.failed_condition = static_cast<uint16_t>(i);
      break;
    }
    verdict.applied = verdict.failed_condition == kv::Verdict::kNone;
    if (!verdict.applied) continue;
    entry.applied = true;
    for (const Mutation& mutation : group.mutations) Apply(mutation, store_time, &state_);
  }
  entry.seq += entry.applied ? 1 : 0;
  entry.request = std::move(request);
  return entries_.emplace_back(std::move(entry));
}

void StoreHistory::OpenSession(absl::Time store_time) {
  Entry entry;
  entry.seq = seq();
  entry.store_time = store_time;
  entries_.push_back(std::move(entry));
}

State StoreHistory::StateAt(kv::CommitSeq seq) const {
  State state;
  for (const Entry& entry : entries_) {
    if (entry.seq > seq) break;
    for (size_t i = 0; i < entry.verdicts.size(); ++i) {
      if (!entry.verdicts[i].applied) continue;
      for (const Mutation& mutation : entry.request->groups[i].mutations)
        Apply(mutation, entry.store_time, &state);
    }
  }
  return state;
}

void StoreHistory::Truncate(kv::CommitSeq seq, uint64_t count) {
  while (entries_.size() > count && (entries_.back().seq > seq || !entries_.back().applied))
    entries_.pop_back();
  state_ = StateAt(seq);
}

std::string Difference(const State& found, const State& expected) {
  for (size_t i = 0; i < found.size(); ++i) {
    auto is = found[i].begin();
    auto should = expected[i].begin();
    while (is != found[i].end() || should != expected[i].end()) {
      const bool extra =
          should == expected[i].end() || (is != found[i].end() && is->first < should->first);
      const bool missing =
          is == found[i].end() || (should != expected[i].end() && should->first < is->first);
      if (extra || missing || *is->second != *should->second) {
        const std::string& key = missing ? should->first : is->first;
        return absl::StrCat(std::string(kv::kColumnFamilyNames[i]), " ", absl::CHexEscape(key),
                            extra     ? " should not be there"
                            : missing ? " is missing"
                                      : " has another value");
      }
      ++is;
      ++should;
    }
  }
  return "";
}

}  // namespace escapement::crash
