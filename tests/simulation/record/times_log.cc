#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/base/uid.h"
#include "common/storage/children_table.h"
#include "common/storage/done_table.h"
#include "common/storage/event_table.h"
#include "common/storage/run_table.h"
#include "common/storage/waiting_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "tests/simulation/record/commit_log.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {
namespace {

using kv::ColumnFamily;
using kv::Mutation;

class GroupReader {
 public:
  explicit GroupReader(std::vector<TimesWrite>* out) : out_(out) {}

  void Read(const kv::Group& group) {
    // If the group deletes a launch record, the run record that it puts launches the run.
    bool launches = false;
    for (const Mutation& mutation : group.mutations) {
      launches = launches || (mutation.cf == ColumnFamily::kCheckpoints &&
                              mutation.kind == Mutation::Kind::kDelete &&
                              DecodeLaunchKey(mutation.key).has_value());
    }
    for (const Mutation& mutation : group.mutations) ReadOne(mutation, launches);
  }

 private:
  void ReadOne(const Mutation& mutation, bool launches) {
    const bool put = mutation.kind == Mutation::Kind::kPut;
    switch (mutation.cf) {
      case ColumnFamily::kEvents:
        if (put) {
          if (const auto key = DecodeEventKey(mutation.key))
            ReadRow(key->uid, key->occurrence, mutation.value);
        }
        break;
      case ColumnFamily::kWaiting:
        if (put) {
          if (const auto key = DecodeWaitingKey(mutation.key))
            ReadRow(key->uid, key->occurrence, mutation.value);
        }
        break;
      case ColumnFamily::kCheckpoints:
        ReadCheckpoint(mutation, put);
        break;
      case ColumnFamily::kRuns:
        if (put && launches) ReadRun(mutation);
        break;
      case ColumnFamily::kStates:
        if (put) ReadState(mutation);
        break;
      case ColumnFamily::kDone:
        ReadDone(mutation, put);
        break;
      default:
        break;
    }
  }

  void ReadRow(const Uid& uid, const std::string& occurrence, const std::string& value) {
    storage::v1::EventRecord record;
    if (occurrence.empty() || !record.ParseFromString(value)) return;
    out_->push_back(EmissionWrite{uid.ToHex(), occurrence, record.version(),
                                  FromMicros(record.nominal_time_micros()),
                                  FromMicros(record.launch_time_micros()), record.triggered()});
  }

  void ReadCheckpoint(const Mutation& mutation, bool put) {
    if (const auto run = DecodeActiveRunKey(mutation.key)) {
      out_->push_back(MarkWrite{run->uid.ToHex(), run->occurrence, !put});
      return;
    }
    const auto launch = DecodeLaunchKey(mutation.key);
    storage::v1::LaunchRecord record;
    if (!put || !launch.has_value() || !record.ParseFromString(mutation.value)) return;
    out_->push_back(EmissionWrite{launch->uid.ToHex(), launch->occurrence, record.version(),
                                  FromMicros(record.nominal_time_micros()), launch->launch_time,
                                  /*triggered=*/false, /*record=*/true});
  }

  void ReadRun(const Mutation& mutation) {
    const auto key = DecodeRunKey(mutation.key);
    storage::v1::RunRecord record;
    if (!key.has_value() || !record.ParseFromString(mutation.value)) return;
    out_->push_back(LaunchWrite{key->uid.ToHex(), key->occurrence, record.version(),
                                FromMicros(record.nominal_time_micros()), record.event_count()});
  }

  void ReadState(const Mutation& mutation) {
    storage::v1::StateRecord record;
    if (mutation.key.size() != Uid::kBytes || !record.ParseFromString(mutation.value)) return;
    if (record.cancelled_before_micros() == 0) return;
    out_->push_back(CancelWrite{Uid::FromBytes(mutation.key).ToHex(),
                                FromMicros(record.cancelled_before_micros())});
  }

  void ReadDone(const Mutation& mutation, bool put) {
    const auto key = DecodeDoneKey(mutation.key);
    if (!key.has_value() || key->occurrence.empty()) return;
    OutcomeWrite write;
    write.uid = key->uid.ToHex();
    write.occurrence = key->occurrence;
    write.first = key->first;
    write.deleted = !put;
    storage::v1::DoneRecord record;
    if (put && record.ParseFromString(mutation.value)) {
      write.count = record.count();
      write.outcome = OutcomeOf(record.outcome());
      write.reason = record.reason();
      write.version = record.version();
      write.nominal = FromMicros(record.nominal_time_micros());
      write.run_skipped = record.run_skipped();
      write.occurrences = std::max<uint64_t>(record.skipped_occurrences(), 1);
      write.last =
          write.occurrences > 1 ? FromMicros(record.last_nominal_time_micros()) : write.nominal;
    }
    out_->push_back(std::move(write));
  }

  std::vector<TimesWrite>* const out_;
};

}  // namespace

std::vector<TimesWrite> ReadTimesWrites(const kv::CommitRecord& record) {
  std::vector<TimesWrite> writes;
  GroupReader reader(&writes);
  for (size_t i = 0; i < record.request->groups.size(); ++i) {
    if (i < record.verdicts.size() && record.verdicts[i].applied)
      reader.Read(record.request->groups[i]);
  }
  return writes;
}

std::vector<std::string> ReadTimesLeftover(const kv::MemDisk& disk) {
  std::vector<std::string> rows;
  for (const auto& [key, value] : disk.families[static_cast<size_t>(ColumnFamily::kCheckpoints)]) {
    if (const auto launch = DecodeLaunchKey(key)) {
      rows.push_back(
          absl::StrCat("launch record: uid ", launch->uid.ToHex(), " ", launch->occurrence));
    } else if (const auto run = DecodeActiveRunKey(key)) {
      rows.push_back(absl::StrCat("active run: uid ", run->uid.ToHex(), " ", run->occurrence));
    }
  }
  return rows;
}

}  // namespace escapement::simulation
