// A master over the stores of several cells, in memory.

#include "services/master/service/cell_masters.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/auth/audit_log.h"
#include "common/kv/forwarding_kv_store.h"
#include "common/kv/memory/mem_kv_store.h"
#include "common/sim/sim_runtime.h"
#include "common/status/errors.h"
#include "common/storage/name_tables.h"
#include "common/tokens/token_batch.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/master/audit/audit_service.h"
#include "services/master/base/limits.h"
#include "services/master/keys/key_service.h"
#include "services/master/tenants/tenant_rules.h"
#include "services/master/tenants/tenant_service.h"

namespace escapement::master {
namespace cell_masters_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr kv::Layout kLayout = {.partitions = 2, .queue_shards = 4};

kv::MemKvStore::Options StoreOf(uint32_t cell, kv::Layout layout = kLayout) {
  kv::MemKvStore::Options options;
  options.layout = layout;
  options.layout.cell = cell;
  return options;
}

class CellMastersTest : public ::testing::Test {
 protected:
  CellMastersTest() {
    for (const uint32_t cell : {0u, 1u, 2u})
      AddStore(absl::StrCat("cell", cell, ":1"), StoreOf(cell));
    Restart();
  }
  ~CellMastersTest() override { masters_.reset(); }

  void AddStore(const std::string& address, kv::MemKvStore::Options options) {
    stores_[address] = std::make_unique<kv::MemKvStore>(runtime_, options);
  }
  kv::MemKvStore& StoreAt(uint32_t cell) { return *stores_.at(absl::StrCat("cell", cell, ":1")); }

  void Restart() {
    masters_.reset();
    MasterOptions options;
    options.fresh_token_key = std::string(kTokenKeyBytes, 'k');
    options.open_store = [this](const std::string& address) -> absl::StatusOr<OpenedStore> {
      const auto store = stores_.find(address);
      if (store == stores_.end()) return absl::InvalidArgumentError("no such host");
      return OpenedStore{.store = std::make_unique<kv::ForwardingKvStore>(*store->second)};
    };
    masters_ = std::make_unique<CellMasters>(std::move(options), StoreAt(0), nullptr, runtime_);
    masters_->Start();
    RunUntil([this] { return masters_->home().Ready() && masters_->Problems().empty(); });
  }

  template <typename Condition>
  void RunUntil(Condition condition) {
    ASSERT_TRUE(runtime_.RunUntil(condition, absl::Minutes(1)));
  }

  template <typename Api, typename Request, typename Response>
  absl::StatusOr<Response> Call(Api& api, void (Api::*method)(Request, Done<Response>),
                                Request request) {
    std::optional<absl::StatusOr<Response>> answer;
    (api.*method)(std::move(request),
                  [&](absl::StatusOr<Response> response) { answer = std::move(response); });
    if (!runtime_.RunUntil([&] { return answer.has_value(); }, absl::Minutes(5)))
      return absl::DeadlineExceededError("-");
    return *std::move(answer);
  }

  absl::Status CreateCell(uint32_t cell, const std::string& address = "", bool dry = false) {
    v1::CreateCellRequest request;
    request.set_cell_id(absl::StrCat(cell));
    request.mutable_cell()->set_store_address(address.empty() ? absl::StrCat("cell", cell, ":1")
                                                              : address);
    request.set_validate_only(dry);
    return Call(masters_->home().cells(), &CellService::CreateCell, request).status();
  }
  // Creates cells 1 and 2, and waits until the master serves them.
  void CreateCells() {
    ASSERT_TRUE(CreateCell(1).ok());
    ASSERT_TRUE(CreateCell(2).ok());
    RunUntil([this] {
      return masters_->DoorOf(1).value_or(nullptr) != nullptr &&
             masters_->DoorOf(2).value_or(nullptr) != nullptr && masters_->Problems().empty();
    });
  }
  void UpdateCell(uint32_t cell, v1::Cell::State state, double weight) {
    v1::UpdateCellRequest request;
    request.mutable_cell()->set_name(NameOfCell(cell));
    request.mutable_cell()->set_state(state);
    request.mutable_cell()->set_weight(weight);
    const auto updated = Call(masters_->home().cells(), &CellService::UpdateCell, request);
    ASSERT_TRUE(updated.ok()) << updated.status();
    runtime_.AdvanceBy(absl::Seconds(1));
  }

  // The new tenant's cell.
  absl::StatusOr<std::string> CreateTenant(const std::string& id, const std::string& cell = "") {
    v1::CreateTenantRequest request;
    request.set_tenant_id(id);
    request.mutable_tenant()->set_cell(cell);
    const auto tenant = Call(masters_->home().tenants(), &TenantService::CreateTenant, request);
    if (!tenant.ok()) return tenant.status();
    return tenant->cell();
  }
  absl::Status CreateSchedule(const std::string& tenant, const std::string& id = "s") {
    const absl::StatusOr<MasterService*> master = masters_->Of(tenant);
    if (!master.ok()) return master.status();
    v1::CreateScheduleRequest request;
    request.set_parent("tenants/" + tenant);
    request.set_schedule_id(id);
    request.mutable_schedule()->set_cron("0 0 * * *");
    request.mutable_schedule()->mutable_target()->mutable_http()->set_uri("http://127.0.0.1:1/");
    return Call((*master)->schedules(), &ScheduleApi::CreateSchedule, request).status();
  }
  absl::Status DeleteSchedule(const std::string& tenant, const std::string& id = "s") {
    v1::DeleteScheduleRequest request;
    request.set_name(absl::StrCat("tenants/", tenant, "/schedules/", id));
    return Call((*masters_->Of(tenant))->schedules(), &ScheduleApi::DeleteSchedule, request)
        .status();
  }
  void Suspend(const std::string& tenant) {
    v1::UpdateTenantRequest request;
    request.mutable_tenant()->set_name("tenants/" + tenant);
    request.mutable_tenant()->set_state(v1::Tenant::SUSPENDED);
    ASSERT_TRUE(Call(masters_->home().tenants(), &TenantService::UpdateTenant, request).ok());
    runtime_.AdvanceBy(2 * kTenantSuspendedMin);
  }
  absl::Status DeleteTenant(const std::string& tenant, bool dry = false) {
    v1::DeleteTenantRequest request;
    request.set_name("tenants/" + tenant);
    request.set_validate_only(dry);
    return Call(masters_->home().tenants(), &TenantService::DeleteTenant, request).status();
  }

  size_t Rows(uint32_t cell, kv::ColumnFamily cf) {
    return StoreAt(cell).disk()->families[static_cast<size_t>(cf)].size();
  }
  std::optional<storage::v1::TenantRecord> RecordIn(uint32_t cell, const std::string& tenant) {
    const auto& rows =
        StoreAt(cell).disk()->families[static_cast<size_t>(kv::ColumnFamily::kTenants)];
    const auto row = rows.find(TenantKey(tenant));
    if (row == rows.end()) return std::nullopt;
    storage::v1::TenantRecord record;
    EXPECT_TRUE(record.ParseFromString(row->second));
    return record;
  }

  sim::SimRuntime runtime_{1};
  std::map<std::string, std::unique_ptr<kv::MemKvStore>> stores_;  // by address
  std::unique_ptr<CellMasters> masters_;
};

TEST_F(CellMastersTest, AStoreThatDoesNotFitIsNoCell) {
  AddStore("third:1", StoreOf(3));
  AddStore("other_numbers:1", StoreOf(1, {.partitions = 2, .queue_shards = 5}));
  const absl::Status other_cell = CreateCell(1, "third:1");
  EXPECT_EQ(ErrorReason(other_cell), "CELL_MISMATCH") << other_cell;
  EXPECT_THAT(other_cell.message(), HasSubstr("it is cell 3"));
  const absl::Status other_numbers = CreateCell(1, "other_numbers:1");
  EXPECT_EQ(ErrorReason(other_numbers), "CELL_MISMATCH");
  EXPECT_THAT(other_numbers.message(), HasSubstr("5 queue shards"));
  EXPECT_EQ(ErrorReason(CreateCell(0)), "INVALID_FIELD");
  EXPECT_EQ(ErrorReason(CreateCell(64)), "INVALID_FIELD");
  EXPECT_EQ(ErrorReason(CreateCell(1, "nowhere:1")), "INVALID_FIELD");
  StoreAt(1).Crash(kv::MemKvStore::Unsynced::kLost);
  EXPECT_TRUE(absl::IsUnavailable(CreateCell(1)));
  StoreAt(1).Restart();

  ASSERT_TRUE(CreateCell(1, "", /*dry=*/true).ok());
  ASSERT_TRUE(CreateCell(1).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(CreateCell(1)));
}

TEST_F(CellMastersTest, ACellOfOneInstallationIsNotThatOfAnother) {
  sim::SimRuntime& runtime = runtime_;
  ASSERT_TRUE(CreateCell(1).ok());
  // Another home cell makes another key of tokens.
  kv::MemKvStore other_home(runtime, StoreOf(0));
  MasterOptions options;
  options.fresh_token_key = std::string(kTokenKeyBytes, 'o');
  options.open_store = [this](const std::string&) -> absl::StatusOr<OpenedStore> {
    return OpenedStore{.store = std::make_unique<kv::ForwardingKvStore>(StoreAt(1))};
  };
  CellMasters other(std::move(options), other_home, nullptr, runtime);
  other.Start();
  RunUntil([&] { return other.home().Ready() && other.home().context().mint != nullptr; });
  v1::CreateCellRequest request;
  request.set_cell_id("1");
  const auto refused = Call(other.home().cells(), &CellService::CreateCell, request);
  EXPECT_THAT(refused.status().message(), HasSubstr("of another installation"));
}

TEST_F(CellMastersTest, TenantsGoToTheCellWithTheFewestForItsWeight) {
  CreateCells();
  // "default" is in cell 0.
  EXPECT_EQ(*CreateTenant("a"), "cells/1");
  EXPECT_EQ(*CreateTenant("b"), "cells/2");
  UpdateCell(1, v1::Cell::OPEN, 3);
  EXPECT_EQ(*CreateTenant("c"), "cells/1");
  EXPECT_EQ(*CreateTenant("d"), "cells/1");
  UpdateCell(1, v1::Cell::DRAINING, 3);
  EXPECT_EQ(*CreateTenant("e"), "cells/0");
  EXPECT_EQ(ErrorReason(CreateTenant("f", "cells/1").status()), "CELL_DRAINING");
  EXPECT_EQ(ErrorReason(CreateTenant("f", "cells/3").status()), "CELL_NOT_FOUND");
  EXPECT_EQ(ErrorReason(CreateTenant("f", "cells/x").status()), "INVALID_FIELD");
  EXPECT_EQ(*CreateTenant("f", "cells/2"), "cells/2");

  const auto cells =
      Call(masters_->home().cells(), &CellService::ListCells, v1::ListCellsRequest());
  ASSERT_TRUE(cells.ok()) << cells.status();
  std::vector<std::string> counts;
  for (const v1::Cell& cell : cells->cells())
    counts.push_back(absl::StrCat(cell.name(), " ", cell.tenant_count()));
  EXPECT_THAT(counts, ElementsAre("cells/0 2", "cells/1 3", "cells/2 2"));
}

TEST_F(CellMastersTest, ATenantsRowsAreInItsCellOnly) {
  CreateCells();
  ASSERT_TRUE(CreateTenant("a", "cells/1").ok());
  ASSERT_TRUE(CreateSchedule("a").ok());
  EXPECT_EQ(Rows(1, kv::ColumnFamily::kSchedules), 1u);
  EXPECT_EQ(Rows(0, kv::ColumnFamily::kSchedules), 0u);
  EXPECT_EQ(Rows(2, kv::ColumnFamily::kSchedules), 0u);
  ASSERT_TRUE(CreateSchedule("default").ok());
  EXPECT_EQ(Rows(0, kv::ColumnFamily::kSchedules), 1u);
  // Another master finds it.
  Restart();
  RunUntil([this] { return masters_->Of("a").ok(); });
  EXPECT_TRUE(absl::IsAlreadyExists(CreateSchedule("a")));

  v1::UpdateTenantRequest request;
  request.mutable_tenant()->set_name("tenants/a");
  request.mutable_tenant()->mutable_retention()->set_seconds(30 * 86'400);
  ASSERT_TRUE(Call(masters_->home().tenants(), &TenantService::UpdateTenant, request).ok());
  EXPECT_EQ(RecordIn(1, "a")->retention_micros(), int64_t{30} * 86'400'000'000);
  request.mutable_tenant()->set_cell("cells/2");
  EXPECT_EQ(
      ErrorReason(Call(masters_->home().tenants(), &TenantService::UpdateTenant, request).status()),
      "INVALID_FIELD");
}

TEST_F(CellMastersTest, ACellThatIsDownCostsItsTenantsOnly) {
  CreateCells();
  ASSERT_TRUE(CreateTenant("a", "cells/1").ok());
  ASSERT_TRUE(CreateTenant("b", "cells/2").ok());
  StoreAt(1).Crash(kv::MemKvStore::Unsynced::kLost);
  RunUntil([this] { return !masters_->Of("a").ok(); });
  const absl::Status down = CreateSchedule("a");
  EXPECT_EQ(ErrorReason(down), "CELL_UNREACHABLE") << down;
  EXPECT_TRUE(absl::IsUnavailable(down));
  EXPECT_TRUE(CreateSchedule("b").ok());
  EXPECT_TRUE(CreateSchedule("default").ok());
  EXPECT_TRUE(masters_->Ready());
  EXPECT_THAT(masters_->Problems(), HasSubstr("cells/1 is not served: its store does not answer"));

  // It has the fewest tenants for its weight.
  UpdateCell(1, v1::Cell::OPEN, 100);
  EXPECT_NE(*CreateTenant("c"), "cells/1");

  v1::GetCellStatusRequest request;
  request.set_name("cells/1");
  auto status = Call(masters_->home().cells(), &CellService::GetCellStatus, request);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_FALSE(status->serving());
  EXPECT_THAT(status->problem(), HasSubstr("does not answer"));

  StoreAt(1).Restart();
  RunUntil([this] { return masters_->Of("a").ok(); });
  EXPECT_TRUE(CreateSchedule("a").ok());
  EXPECT_THAT(masters_->Problems(), IsEmpty());
  status = Call(masters_->home().cells(), &CellService::GetCellStatus, request);
  EXPECT_TRUE(status.ok() && status->serving()) << status.status();
}

TEST_F(CellMastersTest, QuotasCountTheRowsOfTheTenantsCell) {
  CreateCells();
  v1::CreateTenantRequest create;
  create.set_tenant_id("a");
  create.mutable_tenant()->set_cell("cells/1");
  create.mutable_tenant()->mutable_quotas()->set_max_schedules(1);
  ASSERT_TRUE(Call(masters_->home().tenants(), &TenantService::CreateTenant, create).ok());
  ASSERT_TRUE(CreateSchedule("a").ok());
  runtime_.AdvanceBy(absl::Seconds(20));
  const auto* method = google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(
      "escapement.v1.ScheduleService.CreateSchedule");
  const absl::Status refused = masters_->home().tenant_rules().Check(
      *MethodAccess::Of(*method), *AnonymousCaller(), "a", v1::CreateScheduleRequest());
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
}

TEST_F(CellMastersTest, ATenantIsDeletedInItsCellFirst) {
  CreateCells();
  ASSERT_TRUE(CreateTenant("a", "cells/1").ok());
  ASSERT_TRUE(CreateSchedule("a").ok());
  EXPECT_EQ(ErrorReason(DeleteTenant("a")), "TENANT_NOT_SUSPENDED");
  Suspend("a");
  EXPECT_EQ(ErrorReason(DeleteTenant("a")), "TENANT_HAS_SCHEDULES");
  EXPECT_EQ(ErrorReason(DeleteTenant("a", /*dry=*/true)), "TENANT_HAS_SCHEDULES");
  EXPECT_EQ(RecordIn(1, "a")->delete_time_micros(), 0);
  ASSERT_TRUE(DeleteSchedule("a").ok());
  EXPECT_TRUE(DeleteTenant("a", /*dry=*/true).ok());
  EXPECT_EQ(RecordIn(1, "a")->delete_time_micros(), 0) << "a dry run has deleted it";
  ASSERT_TRUE(DeleteTenant("a").ok());
  EXPECT_NE(RecordIn(1, "a")->delete_time_micros(), 0);
  EXPECT_NE(RecordIn(0, "a")->delete_time_micros(), 0);

  // The id is free again when both cells have swept.
  EXPECT_EQ(ErrorReason(CreateTenant("a", "cells/2").status()), "TENANT_BEING_DELETED");
  for (int i = 0; i < 10 && !(RecordIn(0, "a")->swept() && RecordIn(0, "a")->cell_swept()); ++i)
    runtime_.AdvanceBy(kTenantSweepEvery);
  EXPECT_EQ(Rows(1, kv::ColumnFamily::kStates), 0u);
  EXPECT_EQ(*CreateTenant("a", "cells/1"), "cells/1");
  RunUntil([this] { return masters_->Of("a").ok(); });
  EXPECT_EQ(RecordIn(1, "a")->delete_time_micros(), 0);
  EXPECT_TRUE(CreateSchedule("a").ok());
}

// The cell may have let the tenant go when the master dies before the home cell has.
TEST_F(CellMastersTest, ADeletionThatWasCutOffCanBeRepeatedOrTakenBack) {
  CreateCells();
  ASSERT_TRUE(CreateTenant("a", "cells/1").ok());
  ASSERT_TRUE(CreateTenant("b", "cells/1").ok());
  Suspend("a");
  Suspend("b");
  for (const std::string tenant : {"a", "b"}) {
    bool retired = false;
    RetireTenant((*masters_->Of(tenant))->context(), *RecordIn(0, tenant),
                 /*validate_only=*/false, [&](absl::Status status) { retired = status.ok(); });
    RunUntil([&] { return retired; });
  }
  RunUntil([this] { return !masters_->Of("a").ok(); });
  EXPECT_TRUE(DeleteTenant("a").ok());
  EXPECT_NE(RecordIn(0, "a")->delete_time_micros(), 0);

  v1::UpdateTenantRequest request;
  request.mutable_tenant()->set_name("tenants/b");
  request.mutable_tenant()->set_state(v1::Tenant::ACTIVE);
  ASSERT_TRUE(Call(masters_->home().tenants(), &TenantService::UpdateTenant, request).ok());
  RunUntil([this] { return masters_->Of("b").ok(); });
  EXPECT_TRUE(CreateSchedule("b").ok());
}

TEST_F(CellMastersTest, TheAuditOfATenantIsThatOfBothCells) {
  CreateCells();
  ASSERT_TRUE(CreateTenant("a", "cells/1").ok());
  for (const std::string id : {"s1", "s2", "s3"}) {
    ASSERT_TRUE(CreateSchedule("a", id).ok());
    v1::CreateKeyRequest request;
    request.set_parent("tenants/a");
    request.mutable_key()->set_role(v1::Access::VIEWER);
    ASSERT_TRUE(Call(masters_->home().keys(), &KeyService::CreateKey, request).ok());
  }
  for (const int page_size : {1, 2, 100}) {
    std::vector<std::string> methods;
    v1::ListAuditEntriesRequest request;
    request.set_parent("tenants/a");
    request.set_page_size(page_size);
    do {
      const auto page =
          Call((*masters_->Of("a"))->audit(), &AuditService::ListAuditEntries, request);
      ASSERT_TRUE(page.ok()) << page.status();
      for (const v1::AuditEntry& entry : page->audit_entries()) methods.push_back(entry.method());
      request.set_page_token(page->next_page_token());
    } while (!request.page_token().empty());
    EXPECT_THAT(methods, ElementsAre("CreateKey", "CreateSchedule", "CreateKey", "CreateSchedule",
                                     "CreateKey", "CreateSchedule"))
        << page_size;
  }
}

// Answers each token with its own status.
class FakeDoor final : public TokenApi {
 public:
  explicit FakeDoor(v1::TokenResult::Status status) : status_(status) {}
  void CompleteTokens(const v1::CompleteTokensRequest& request,
                      Done<v1::CompleteTokensResponse> done) override {
    auto response = std::make_unique<v1::CompleteTokensResponse>();
    for (int i = 0; i < request.completions_size(); ++i)
      response->add_results()->set_status(status_);
    done(std::move(response));
  }
  void ReleaseTokens(const v1::ReleaseTokensRequest&, Done<v1::ReleaseTokensResponse>) override {}
  void ExtendTokens(const v1::ExtendTokensRequest&, Done<v1::ExtendTokensResponse>) override {}

 private:
  const v1::TokenResult::Status status_;
};

TEST_F(CellMastersTest, TokensOfSeveralCellsAreGivenBackInOneRequest) {
  CreateCells();
  RunUntil([this] { return masters_->home().context().mint != nullptr; });
  FakeDoor home(v1::TokenResult::DONE);
  CellTokens tokens(*masters_, home);
  v1::CompleteTokensRequest request;
  const auto add = [&](const std::string& token) {
    v1::TokenCompletion& completion = *request.add_completions();
    completion.set_token(token);
    completion.set_outcome(v1::TokenCompletion::SUCCEEDED);
  };
  const std::string key(kTokenKeyBytes, 'k');
  TokenName name;
  name.grant.policy_shard = 3;
  name.grant.epoch = 7;
  add(TokenMint(key, 1).Handle(name));  // nobody holds it
  add(TokenMint(key, 0).Handle(name));
  add("no token");
  add(TokenMint(key, 2).Handle(name));
  std::vector<int> results;
  tokens.CompleteTokens(request, [&](auto response) {
    ASSERT_TRUE(response.ok()) << response.status();
    for (const auto& result : (*response)->results()) results.push_back(result.status());
  });
  RunUntil([&] { return !results.empty(); });
  EXPECT_THAT(results, ElementsAre(v1::TokenResult::NOT_HELD, v1::TokenResult::DONE,
                                   v1::TokenResult::DONE, v1::TokenResult::NOT_HELD));

  // The tokens of other cells are given back although one cell is down.
  StoreAt(1).Crash(kv::MemKvStore::Unsynced::kLost);
  RunUntil([this] { return !masters_->DoorOf(1).ok(); });
  std::optional<absl::Status> refused;
  tokens.CompleteTokens(request, [&](auto response) { refused = response.status(); });
  RunUntil([&] { return refused.has_value(); });
  EXPECT_EQ(ErrorReason(*refused), "CELL_UNREACHABLE") << *refused;

  // A cell that this master does not know yet: the home cell's door refuses.
  TokenDoor::Options door_options;
  door_options.instance = "home door";
  TokenDoor door(std::move(door_options), StoreAt(0), runtime_);
  door.Start();
  RunUntil([&] { return door.Ready(); });
  CellTokens with_door(*masters_, door);
  request.clear_completions();
  add(TokenMint(key, 9).Handle(name));
  refused.reset();
  with_door.CompleteTokens(request, [&](auto response) { refused = response.status(); });
  RunUntil([&] { return refused.has_value(); });
  EXPECT_EQ(ErrorReason(*refused), "OTHER_CELL") << *refused;
}

// A cell that falls silent while it has the tokens does not keep the answer back.
TEST_F(CellMastersTest, ARequestForSeveralCellsIsAnsweredWithoutASilentOne) {
  CreateCells();
  RunUntil([this] { return masters_->home().context().mint != nullptr; });
  FakeDoor home(v1::TokenResult::DONE);
  CellTokens tokens(*masters_, home);
  const std::string key(kTokenKeyBytes, 'k');
  v1::CompleteTokensRequest request;
  for (const uint32_t cell : {0u, 1u}) {
    v1::TokenCompletion& completion = *request.add_completions();
    completion.set_token(TokenMint(key, cell).Handle(TokenName()));
    completion.set_outcome(v1::TokenCompletion::SUCCEEDED);
  }
  StoreAt(1).Crash(kv::MemKvStore::Unsynced::kLost);
  std::optional<absl::Status> answered;
  tokens.CompleteTokens(request, [&](auto response) { answered = response.status(); });
  RunUntil([&] { return answered.has_value(); });
  EXPECT_EQ(ErrorReason(*answered), "RESULT_UNKNOWN") << *answered;
  StoreAt(1).Restart();
  RunUntil([this] { return masters_->Problems().empty(); });
}

}  // namespace cell_masters_test
}  // namespace escapement::master
