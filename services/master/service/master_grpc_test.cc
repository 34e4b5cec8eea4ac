// The master over gRPC on loopback, with a real store in a temporary folder.

#include "services/master/service/master_grpc.h"

#include <grpcpp/grpcpp.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/base/printable_text.h"
#include "common/kv/rocks/rocks_kv_store.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_server.h"
#include "common/rpc/rpc_table_grpc.h"
#include "common/rpc/status_conversion.h"
#include "common/runtime/system_runtime.h"
#include "common/status/errors.h"
#include "escapement/v1/event_service.grpc.pb.h"
#include "escapement/v1/run_service.grpc.pb.h"
#include "escapement/v1/schedule_service.grpc.pb.h"
#include "gtest/gtest.h"
#include "services/master/service/cell_masters.h"
#include "tests/fixtures/raw_call.h"

namespace escapement::master {
namespace master_grpc_test {

constexpr int64_t kFarMicros = 4'000'000'000'000'000;  // 2096

class MasterGrpcTest : public ::testing::Test {
 protected:
  void SetUp() override {
    kv::RocksKvStore::Options options;
    const char* folder = std::getenv("TEST_TMPDIR");
    options.data_dir =
        absl::StrCat(folder == nullptr ? "/tmp" : folder, "/",
                     ::testing::UnitTest::GetInstance()->current_test_info()->name());
    options.layout = {.partitions = 2, .queue_shards = 4};
    options.free_bytes_min = 0;
    auto store = kv::RocksKvStore::Open(options, runtime_.clock());
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    master_ = std::make_unique<CellMasters>(MasterOptions(), *store_, nullptr, runtime_);
    AddMasterRpcs(*master_, rpcs_);
    auto server = GrpcServer::Start(GrpcServer::Options(), rpcs_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    master_->Start();
    channel_ = NewChannel(server_->address());
    events_ = v1::EventService::NewStub(channel_);
    schedules_ = v1::ScheduleService::NewStub(channel_);
    runs_ = v1::RunService::NewStub(channel_);
    WaitUntilReady();
  }

  void TearDown() override {
    server_->Shutdown(absl::Seconds(1));
    master_.reset();
    store_.reset();
  }

  // Calls are refused as not ready until the master has read the layout; each answer is waited for.
  void WaitUntilReady() {
    v1::ListSchedulesRequest request;
    request.set_parent("tenants/default");
    v1::ListSchedulesResponse response;
    grpc::StatusCode code = grpc::StatusCode::UNAVAILABLE;
    while (code == grpc::StatusCode::UNAVAILABLE) {
      grpc::ClientContext context;
      code = schedules_->ListSchedules(&context, request, &response).error_code();
    }
    ASSERT_EQ(code, grpc::StatusCode::OK);
  }

  static v1::IngestRequest Batch(uint64_t number, int count, const std::string& id_prefix = "") {
    v1::IngestRequest batch;
    batch.set_batch_number(number);
    for (int i = 0; i < count; ++i) {
      v1::IngestEvent* event = batch.add_events();
      event->set_due_time_micros(kFarMicros + i);
      event->set_payload("payload");
      if (!id_prefix.empty()) event->set_event_id(absl::StrCat(id_prefix, i));
    }
    return batch;
  }

  // Destroyed in reverse: nothing outlives what it uses.
  SystemRuntime runtime_;
  std::unique_ptr<kv::RocksKvStore> store_;
  std::unique_ptr<CellMasters> master_;
  RpcTable rpcs_;
  std::unique_ptr<GrpcServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::EventService::Stub> events_;
  std::unique_ptr<v1::ScheduleService::Stub> schedules_;
  std::unique_ptr<v1::RunService::Stub> runs_;
};

TEST_F(MasterGrpcTest, SchedulesAreMadeReadTriggeredAndTheirRunsListed) {
  v1::CreateScheduleRequest create;
  create.set_parent("tenants/default");
  create.set_schedule_id("nightly");
  create.mutable_schedule()->set_cron("0 0 1 1 *");
  create.mutable_schedule()->set_time_zone("Asia/Kolkata");
  create.mutable_schedule()->mutable_target()->mutable_http()->set_uri("http://127.0.0.1:1/");
  v1::Schedule schedule;
  {
    grpc::ClientContext context;
    const grpc::Status status = schedules_->CreateSchedule(&context, create, &schedule);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }
  EXPECT_EQ(schedule.name(), "tenants/default/schedules/nightly");
  v1::TriggerScheduleRequest trigger;
  trigger.set_name(schedule.name());
  v1::Run run;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(schedules_->TriggerSchedule(&context, trigger, &run).ok());
  }
  v1::GetRunRequest get;
  get.set_name(run.name());
  v1::Run got;
  {
    grpc::ClientContext context;
    const grpc::Status status = runs_->GetRun(&context, get, &got);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }
  EXPECT_EQ(got.state(), v1::Run::ACTIVE);
  EXPECT_EQ(got.event_count(), 1);
  {
    grpc::ClientContext context;
    v1::BackfillScheduleRequest request;
    request.set_name(schedule.name());
    request.mutable_start_time()->set_seconds(1'577'836'800);  // 2020
    request.mutable_end_time()->set_seconds(1'672'531'200);    // 2023
    v1::BackfillScheduleResponse response;
    ASSERT_TRUE(schedules_->BackfillSchedule(&context, request, &response).ok());
    EXPECT_EQ(response.fired_count(), 3);
  }
  {
    grpc::ClientContext context;
    v1::PreviewScheduleRequest request;
    request.set_cron("0 3,6,9 * * *");
    v1::PreviewScheduleResponse response;
    ASSERT_TRUE(schedules_->PreviewSchedule(&context, request, &response).ok());
    EXPECT_EQ(response.occurrences_size(), 10);
    EXPECT_FALSE(response.description().empty());
  }
}

TEST_F(MasterGrpcTest, ErrorsCarryTheirDetails) {
  v1::CreateScheduleRequest create;
  create.set_parent("tenants/default");
  create.mutable_schedule()->set_cron("0 0 31 2 *");
  create.mutable_schedule()->mutable_target()->mutable_http()->set_uri("http://127.0.0.1:1/");
  v1::Schedule schedule;
  grpc::ClientContext context;
  const absl::Status status =
      FromGrpcStatus(schedules_->CreateSchedule(&context, create, &schedule));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorReason(status), "IMPOSSIBLE_EXPRESSION");
  ASSERT_EQ(FieldViolationsOf(status).size(), 1u);
  EXPECT_EQ(FieldViolationsOf(status)[0].first, "schedule.cron");
}

TEST_F(MasterGrpcTest, AnUnreadableRequestIsAnsweredAsInvalid) {
  for (const std::string bytes : {"\x0a\x01\xff", "\x0a\x7fshort", "\xff"}) {
    for (const char* method : {"EventService/GetEvent", "ScheduleService/PauseSchedule"}) {
      const auto answer =
          fixtures::RawCall(channel_, absl::StrCat("/escapement.v1.", method), {bytes});
      const absl::Status status = FromGrpcStatus(answer.status);
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
      EXPECT_EQ(ErrorReason(status), "UNREADABLE_MESSAGE");
    }
  }
}

TEST_F(MasterGrpcTest, AnUnreadableBatchEndsTheStreamAfterTheAnswersBeforeIt) {
  v1::IngestRequest batch = Batch(7, 10);
  batch.set_parent("tenants/default");
  batch.mutable_defaults()->mutable_target()->mutable_grpc()->set_uri("localhost:1");
  const std::string good = batch.SerializeAsString();
  const auto answer = fixtures::RawCall(channel_, "/escapement.v1.EventService/Ingest",
                                        {good, "\x0a\x01\xff", good});
  const absl::Status status = FromGrpcStatus(answer.status);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(ErrorReason(status), "UNREADABLE_MESSAGE");
  ASSERT_EQ(answer.messages.size(), 1u);
  v1::IngestResponse response;
  ASSERT_TRUE(response.ParseFromString(answer.messages[0]));
  EXPECT_EQ(response.created_count(), 10) << response.error_message();
}

TEST_F(MasterGrpcTest, TheLargestErrorReachesAnOrdinaryClient) {
  v1::BatchCreateEventsRequest batch;
  batch.set_parent("tenants/default");
  for (int i = 0; i < 1000; ++i) {
    std::string id;
    for (int k = 0; k < 200; ++k) id += "\xe2\x82\xac";
    v1::CreateEventRequest* request = batch.add_requests();
    request->set_event_id(id);
    request->set_parent(id);
  }
  v1::BatchCreateEventsResponse response;
  grpc::ClientContext context;
  const absl::Status status =
      FromGrpcStatus(events_->BatchCreateEvents(&context, batch, &response));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(ErrorReason(status), "INVALID_FIELD");
  EXPECT_GT(FieldViolationsOf(status).size(), 5u);
  v1::GetEventRequest get;
  v1::Event event;
  for (int k = 0; k < 50'000; ++k) get.mutable_name()->append("\xe2\x82\xac\x1b");
  grpc::ClientContext get_context;
  const absl::Status named = FromGrpcStatus(events_->GetEvent(&get_context, get, &event));
  EXPECT_EQ(ErrorReason(named), "INVALID_FIELD") << named;
  EXPECT_FALSE(HasControlCharacters(named.message()));
}

TEST_F(MasterGrpcTest, IngestAnswersEachBatchInOrderAndRemembersParentAndDefaults) {
  constexpr int kBatches = 40;  // more than are under way at once
  grpc::ClientContext context;
  context.AddMetadata("escapement-return-ids", "true");
  auto stream = events_->Ingest(&context);
  for (int i = 0; i < kBatches; ++i) {
    v1::IngestRequest batch = Batch(i, 10);
    if (i == 0) {
      batch.set_parent("tenants/default");
      batch.mutable_defaults()->mutable_target()->mutable_grpc()->set_uri("localhost:1");
    }
    if (i == 5) batch.mutable_events(3)->set_payload(std::string(300'000, 'x'));
    ASSERT_TRUE(stream->Write(batch));
  }
  stream->WritesDone();
  v1::IngestResponse response;
  std::string an_id;
  for (int i = 0; i < kBatches; ++i) {
    ASSERT_TRUE(stream->Read(&response));
    EXPECT_EQ(response.batch_number(), static_cast<uint64_t>(i));
    if (i == 5) {
      // Refused, and the stream goes on.
      EXPECT_EQ(response.error_code(), static_cast<int>(absl::StatusCode::kInvalidArgument));
      EXPECT_EQ(response.error_message().substr(0, 17), "events[3].payload");
      EXPECT_EQ(response.created_count(), 0);
      continue;
    }
    EXPECT_EQ(response.error_code(), 0) << response.error_message();
    EXPECT_EQ(response.created_count(), 10);
    ASSERT_EQ(response.event_ids_size(), 10);
    an_id = response.event_ids(9);
  }
  EXPECT_FALSE(stream->Read(&response));
  const grpc::Status end = stream->Finish();
  EXPECT_TRUE(end.ok()) << end.error_message();

  v1::GetEventRequest get;
  get.set_name("tenants/default/events/" + an_id);
  v1::Event event;
  grpc::ClientContext get_context;
  ASSERT_TRUE(events_->GetEvent(&get_context, get, &event).ok());
  EXPECT_EQ(event.payload(), "payload");
  EXPECT_EQ(event.target().grpc().uri(), "localhost:1");
}

TEST_F(MasterGrpcTest, AResentStreamOfClientChosenIdsCreatesEachOnce) {
  int created = 0;
  int existing = 0;
  for (int round = 0; round < 2; ++round) {
    grpc::ClientContext context;
    auto stream = events_->Ingest(&context);
    v1::IngestRequest batch = Batch(1, 500, "id-");
    batch.set_parent("tenants/default");
    batch.mutable_defaults()->mutable_target()->mutable_grpc()->set_uri("localhost:1");
    ASSERT_TRUE(stream->Write(batch));
    stream->WritesDone();
    v1::IngestResponse response;
    ASSERT_TRUE(stream->Read(&response));
    created += response.created_count();
    existing += response.existing_count();
    EXPECT_TRUE(stream->Finish().ok());
  }
  EXPECT_EQ(created, 500);
  EXPECT_EQ(existing, 500);
}

TEST_F(MasterGrpcTest, AStreamThatIsCancelledByItsClientLeavesTheServerAlive) {
  {
    grpc::ClientContext context;
    auto stream = events_->Ingest(&context);
    v1::IngestRequest batch = Batch(1, 100);
    batch.set_parent("tenants/default");
    ASSERT_TRUE(stream->Write(batch));
    context.TryCancel();
    v1::IngestResponse response;
    while (stream->Read(&response)) {
    }
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  WaitUntilReady();
}

// As a client without any settings: it takes answers of 4 MiB at most.
TEST_F(MasterGrpcTest, BatchWithinTheLimitsIsTakenMoreIsRefusedByItsField) {
  const auto events = v1::EventService::NewStub(
      grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  const auto create = [&](int count) {
    v1::BatchCreateEventsRequest batch;
    batch.set_parent("tenants/default");
    for (int i = 0; i < count; ++i) {
      v1::Event* event = batch.add_requests()->mutable_event();
      event->mutable_due_time()->set_seconds(kFarMicros / 1'000'000);
      event->mutable_target()->mutable_grpc()->set_uri("localhost:1");
      event->set_payload(std::string(262'144, 'x'));
    }
    v1::BatchCreateEventsResponse response;
    grpc::ClientContext context;
    return FromGrpcStatus(events->BatchCreateEvents(&context, batch, &response));
  };
  EXPECT_TRUE(create(16).ok());
  EXPECT_TRUE(create(31).ok());
  const absl::Status refused = create(50);
  EXPECT_EQ(ErrorReason(refused), "INVALID_FIELD") << refused;
  ASSERT_EQ(FieldViolationsOf(refused).size(), 1u);
  EXPECT_EQ(FieldViolationsOf(refused)[0].first, "requests");

  grpc::ClientContext context;
  auto stream = events->Ingest(&context);
  for (const int count : {32, 33, 50, 1}) {
    v1::IngestRequest batch = Batch(count, count);
    batch.set_parent("tenants/default");
    batch.mutable_defaults()->mutable_target()->mutable_grpc()->set_uri("localhost:1");
    for (v1::IngestEvent& event : *batch.mutable_events())
      event.set_payload(std::string(262'144, 'x'));
    ASSERT_TRUE(stream->Write(batch));
    v1::IngestResponse response;
    ASSERT_TRUE(stream->Read(&response));
    EXPECT_EQ(
        response.error_code(),
        static_cast<int>(count > 32 ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kOk));
    EXPECT_EQ(response.error_message().substr(0, 6), count > 32 ? "events" : "");
  }
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(MasterGrpcTest, ADrainingMasterRefusesBatchesAndEndsTheStream) {
  grpc::ClientContext context;
  auto stream = events_->Ingest(&context);
  absl::Notification drained;
  master_->Drain([&] { drained.Notify(); });
  drained.WaitForNotification();
  v1::IngestRequest batch = Batch(1, 1);
  batch.set_parent("tenants/default");
  stream->Write(batch);
  v1::IngestResponse response;
  while (stream->Read(&response)) {
  }
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

}  // namespace master_grpc_test
}  // namespace escapement::master
