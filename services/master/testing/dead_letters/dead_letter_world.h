// DeadLetterWorld: a schedule and dead letters, written as the handler and the token manager write
// them; for tests.

#ifndef SERVICES_MASTER_TESTING_DEAD_LETTERS_DEAD_LETTER_WORLD_H_
#define SERVICES_MASTER_TESTING_DEAD_LETTERS_DEAD_LETTER_WORLD_H_

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/kv/group_parts.h"
#include "common/storage/event_id.h"
#include "common/storage/event_table.h"
#include "common/storage/name_tables.h"
#include "common/storage/run_table.h"
#include "gtest/gtest.h"
#include "services/master/testing/master_world.h"
#include "services/master/testing/run_world.h"

namespace escapement::master {

struct DeadLetterWorld {
  RunWorld bench{3};
  MasterWorld& fixture = bench.fixture;

  // The parts of a dead letter.
  struct Death {
    Uid uid;
    std::string occurrence;
    uint64_t index = 0;
    storage::v1::EventRecord event;
    std::string event_id;
    std::string reason = "status 503";
    std::string schedule_id = "s";
    absl::Time time;
  };

  // An event of a run of n events of the schedule. With a run record unless n is 1.
  Death OfRun(const std::string& occurrence, uint64_t index, uint64_t n) const {
    Death death;
    death.uid = bench.uid;
    death.occurrence = occurrence;
    death.index = index;
    death.event.set_tenant("default");
    death.event.set_version(1);
    death.event.set_count(1);
    death.event.set_run_count(n);
    death.event.set_attempts(4);
    death.event.set_nominal_time_micros(ToMicros(bench.start));
    death.event.set_launch_time_micros(ToMicros(bench.start));
    death.event.set_tried_since_micros(ToMicros(bench.start));
    death.event_id = RunIdentity("default", bench.uid, occurrence).EventId(index);
    death.time = bench.start + absl::Seconds(1);
    return death;
  }
  // A one-off event; `id` empty: with an id that the server made.
  Death OneOff(const std::string& id, uint64_t number = 0) const {
    Death death = OfRun("", 0, 1);
    death.schedule_id = "";
    death.event.set_version(0);
    death.event.set_definition_hash(std::string(16, 'h'));
    death.event.set_payload("hello");
    death.event.set_client_chosen_id(!id.empty());
    death.uid = id.empty() ? Uid::FromHalves(7, number) : UidOfClientChosenId("default", id);
    const EventKey key{.shard = static_cast<uint16_t>(number % fixture.layout.queue_shards),
                       .lane = 5,
                       .due_time = bench.start,
                       .uid = death.uid,
                       .occurrence = ""};
    death.event_id = id.empty() ? ServerMadeEventId(key) : id;
    death.event.set_event_id(death.event_id);
    return death;
  }

  static storage::v1::DeadLetterRecord RecordOf(const Death& death) {
    storage::v1::DeadLetterRecord letter;
    letter.set_uid(std::string(death.uid.bytes()));
    letter.set_occurrence(death.occurrence);
    letter.set_index(death.index);
    *letter.mutable_event() = death.event;
    letter.set_reason(death.reason);
    letter.set_schedule_id(death.schedule_id);
    return letter;
  }
  std::string DoneKeyOfDeath(const Death& death) const {
    return EncodeDoneKey(*DoneKeyOf(RecordOf(death), death.event_id, fixture.layout.queue_shards));
  }

  // Writes the dead letters and their outcomes, once all have failed; the names of the dead
  // letters.
  std::vector<std::string> Die(const std::vector<Death>& deaths) {
    for (const Death& death : deaths) {
      if (death.time > fixture.Now()) fixture.runtime.AdvanceBy(death.time - fixture.Now());
    }
    std::vector<std::string> names;
    kv::Group group;
    for (const Death& death : deaths) {
      storage::v1::DoneRecord done = DoneRecordOf(death.event);
      done.set_count(1);
      done.set_outcome(storage::v1::OUTCOME_KIND_FAILED);
      done.set_complete_time_micros(ToMicros(death.time));
      group.mutations.push_back(
          kv::Put(kv::ColumnFamily::kDone, DoneKeyOfDeath(death), done.SerializeAsString()));
      const DeadLetterName name{"default", death.time, death.event_id};
      group.mutations.push_back(kv::Put(kv::ColumnFamily::kDeadLetters, EncodeDeadLetterKey(name),
                                        RecordOf(death).SerializeAsString()));
      if (death.event.client_chosen_id()) {
        storage::v1::EventNameRecord event_name;
        const std::optional<DoneKey> done_key =
            DoneKeyOf(RecordOf(death), death.event_id, fixture.layout.queue_shards);
        event_name.set_event_key(
            EncodeEventKey({.shard = done_key->shard,
                            .due_time = FromMicros(death.event.launch_time_micros()),
                            .uid = done_key->uid,
                            .occurrence = ""}));
        event_name.set_launch_time_micros(death.event.launch_time_micros());
        group.mutations.push_back(kv::Put(kv::ColumnFamily::kEventNames,
                                          EventNameKey("default", death.event_id),
                                          event_name.SerializeAsString()));
      }
      names.push_back(
          absl::StrCat("tenants/default/deadLetters/",
                       absl::Hex(static_cast<uint64_t>(ToMicros(death.time)), absl::kZeroPad16),
                       "-", death.event_id));
    }
    fixture.Commit({group});
    return names;
  }
  // Many dead letters of one-off events; they failed 1 µs apart from now on.
  std::vector<std::string> DieMany(uint64_t count) {
    std::vector<Death> deaths;
    for (uint64_t i = 0; i < count; ++i) {
      deaths.push_back(OneOff("", i));
      deaths.back().time = fixture.Now() + absl::Microseconds(static_cast<int64_t>(i));
    }
    return Die(deaths);
  }

  // The counts of one shard of a run, and the run's record.
  void PutRun(const std::string& occurrence, uint64_t succeeded, uint64_t failed) {
    storage::v1::RunRecord run;
    run.set_tenant("default");
    run.set_schedule_id("s");
    run.set_version(1);
    run.set_event_count(succeeded + failed);
    run.set_nominal_time_micros(ToMicros(bench.start));
    run.set_complete_time_micros(ToMicros(bench.start + absl::Seconds(2)));
    storage::v1::RunPartRecord part;
    part.set_succeeded(succeeded);
    part.set_failed(failed);
    fixture.Put(kv::ColumnFamily::kRuns, EncodeRunKey({bench.uid, occurrence}),
                run.SerializeAsString());
    fixture.Put(kv::ColumnFamily::kRunParts, RunPartKey({bench.uid, occurrence}, 0),
                part.SerializeAsString());
  }

  absl::StatusOr<v1::Event> Redrive(const std::string& name, const std::string& request_id = "",
                                    bool validate_only = false) {
    v1::RedriveDeadLetterRequest request;
    request.set_name(name);
    request.set_request_id(request_id);
    request.set_validate_only(validate_only);
    return fixture.Call(&DeadLetterService::RedriveDeadLetter, request);
  }
  absl::StatusOr<v1::Operation> RedriveAll(double max_per_second, const std::string& filter = "") {
    v1::RedriveDeadLettersRequest request;
    request.set_parent("tenants/default");
    request.set_filter(filter);
    request.set_max_per_second(max_per_second);
    return fixture.Call(&DeadLetterService::RedriveDeadLetters, request);
  }
  v1::Operation Get(const std::string& operation) {
    v1::GetOperationRequest request;
    request.set_name(operation);
    const auto got = fixture.Call(&OperationService::GetOperation, request);
    EXPECT_TRUE(got.ok()) << got.status();
    return got.ok() ? *got : v1::Operation();
  }
  // Waits until the operation has ended.
  v1::Operation Await(const absl::StatusOr<v1::Operation>& begun) {
    EXPECT_TRUE(begun.ok()) << begun.status();
    if (!begun.ok()) return {};
    v1::Operation operation = *begun;
    for (int i = 0; i < 10'000 && operation.state() == v1::Operation::RUNNING; ++i) {
      fixture.runtime.AdvanceBy(absl::Milliseconds(100));
      operation = Get(begun->name());
    }
    return operation;
  }
  size_t Letters() const { return fixture.Rows(kv::ColumnFamily::kDeadLetters).size(); }
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_TESTING_DEAD_LETTERS_DEAD_LETTER_WORLD_H_
