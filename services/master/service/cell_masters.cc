#include "services/master/service/cell_masters.h"

#include <atomic>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/kv/layout.h"
#include "common/metrics/metrics.h"
#include "common/rpc/method_access.h"
#include "common/status/errors.h"
#include "common/tokens/token_batch.h"
#include "common/tzdata/tzdata_gate.h"
#include "common/tzdata/tzdata_table.h"
#include "services/master/base/errors.h"
#include "services/master/base/master_context.h"
#include "services/master/cells/cell_directory.h"
#include "services/master/policies/policy_service.h"
#include "services/master/tenants/tenant_copies.h"
#include "services/master/tenants/tenant_rules.h"
#include "services/master/tenants/tenant_service.h"

namespace escapement::master {
namespace {

// Each cell is asked for a sign of life so often. It counts as unreachable if none came for longer
// than a change of its leader takes.
constexpr absl::Duration kLookAtCellEvery = absl::Seconds(1);
constexpr int64_t kCellSilentMax = 5'000'000;  // microseconds
// A request for several cells is answered after this time, whatever cells are silent.
constexpr absl::Duration kCellsAnswerWithin = absl::Seconds(10);

MasterOptions OptionsOf(const MasterOptions& options, uint32_t cell, Metrics* metrics) {
  MasterOptions own = options;
  own.instance = absl::StrCat(options.instance, " cell ", cell);
  own.cell = cell;
  own.bootstrap_key_file = "";
  own.metrics = metrics;
  return own;
}

TokenDoor::Options DoorOptionsOf(const MasterOptions& options) {
  TokenDoor::Options door;
  door.instance = options.instance;
  door.metrics = options.metrics;
  return door;
}

}  // namespace

// Asks a store for a sign of life, again and again.
//
// Threads: Start on the context's executor; Silent from any. Stop the executor before it is
// destroyed.
class CellMasters::SignOfLife {
 public:
  // `context` outlives it.
  explicit SignOfLife(MasterContext& context) : context_(context) {}

  void Start() {
    asked_.store(Elapsed(), std::memory_order_relaxed);
    context_.client.MultiGet({{kv::ColumnFamily::kMeta, std::string(kv::kLayoutKey)}},
                             context_.executor, [this](const absl::StatusOr<kv::GetResult>&) {
                               asked_.store(kNotAsked, std::memory_order_relaxed);
                               context_.executor->PostAfter(kLookAtCellEvery, [this] { Start(); });
                             });
  }
  bool Silent() const {
    return Elapsed() - asked_.load(std::memory_order_relaxed) > kCellSilentMax;
  }

 private:
  // Microseconds since the clock's start.
  int64_t Elapsed() const { return absl::ToInt64Microseconds(context_.runtime.clock().Elapsed()); }

  static constexpr int64_t kNotAsked = std::numeric_limits<int64_t>::max();
  MasterContext& context_;
  std::atomic<int64_t> asked_ = kNotAsked;  // when the open question was asked
};

// The part of a master in a cell other than the home cell.
class CellMasters::Cell {
 public:
  // `home` outlives it.
  Cell(const MasterOptions& options, uint32_t number, OpenedStore store, Runtime& runtime,
       MasterService& home)
      : store_(std::move(store)),
        metrics_(options.metrics == nullptr
                     ? std::make_unique<Metrics>()
                     : std::make_unique<Metrics>(*options.metrics,
                                                 MetricLabels{{"cell", absl::StrCat(number)}})),
        options_(OptionsOf(options, number, metrics_.get())),
        service_(options_, *store_.store, runtime, &home),
        door_(DoorOptionsOf(options_), *store_.store, runtime),
        copies_(home.context(), home.directory(), service_.context(), service_.directory(), number),
        life_(service_.context()),
        // The services of the cell may be older, and must go on.
        gate_(
            {.database = tzdata::ThisMachine(),
             .instance = options_.instance,
             .metrics = metrics_.get(),
             .switches = false},
            *store_.store, runtime, [this] { Serve(); }, [this] { EndServing(nullptr); }) {}

  // After this nothing of it runs. Not on an executor of it.
  ~Cell() {
    gate_.executor()->Stop();
    service_.Stop();
  }

  // On the executor of the home cell's context.
  void Start() {
    copies_.Start();
    gate_.Start();
    service_.context().executor->Post([this] { life_.Start(); });
  }
  void Drain(Closure done) {
    gate_.executor()->Post(
        [this, done = std::move(done)]() mutable { EndServing(std::move(done)); });
  }

  // Why the cell is not served; empty: it is.
  std::string Problem() const {
    if (std::string reason = store_.too_old(); !reason.empty()) return reason;
    if (life_.Silent()) return "its store does not answer";
    if (service_.Ready() && door_.Ready()) return {};
    return gate_.Open() ? "its store has not been read yet"
                        : "this machine's time zone database is not the one in force there";
  }

  bool Shows(const std::string& tenant, uint64_t version) {
    return service_.directory().Shows(tenant, version);
  }
  MasterService& service() { return service_; }
  TokenDoor& door() { return door_; }
  kv::StoreAdmin* admin() { return store_.admin; }

 private:
  // On the gate's executor.
  void Serve() {
    if (std::exchange(served_, true)) return;
    service_.Start();
    door_.Start();
  }
  void EndServing(Closure done) {
    if (!std::exchange(served_, true)) return done == nullptr ? void() : done();
    // Without its store, what the door has under way may take long.
    const bool silent = life_.Silent();
    service_.Drain([this, silent, done = std::move(done)]() mutable {
      if (done == nullptr || silent) door_.Drain([] {});
      if (done != nullptr) silent ? done() : door_.Drain(std::move(done));
    });
  }

  // Destroyed in the reverse order.
  OpenedStore store_;
  const std::unique_ptr<Metrics> metrics_;
  const MasterOptions options_;
  mutable MasterService service_;
  TokenDoor door_;
  TenantCopies copies_;
  SignOfLife life_;
  bool served_ = false;  // on the gate's executor; also if it must not be served any more
  tzdata::TzdataGate gate_;
};

// Each call goes to the service of its tenant's cell.
class CellMasters::Events final : public EventApi {
 public:
  explicit Events(CellMasters& masters) : masters_(masters) {}

  void CreateEvent(v1::CreateEventRequest request, Done<v1::Event> done) override {
    const std::string tenant = TenantOf(request.parent());
    Send(tenant, &EventApi::CreateEvent, std::move(request), std::move(done));
  }
  void BatchCreateEvents(v1::BatchCreateEventsRequest request,
                         Done<v1::BatchCreateEventsResponse> done) override {
    const std::string tenant = TenantOf(request.parent());
    Send(tenant, &EventApi::BatchCreateEvents, std::move(request), std::move(done));
  }
  void UpsertEvent(v1::UpsertEventRequest request, Done<v1::Event> done) override {
    const std::string tenant = TenantOf(request.event().name());
    Send(tenant, &EventApi::UpsertEvent, std::move(request), std::move(done));
  }
  void UpdateEvent(v1::UpdateEventRequest request, Done<v1::Event> done) override {
    const std::string tenant = TenantOf(request.event().name());
    Send(tenant, &EventApi::UpdateEvent, std::move(request), std::move(done));
  }
  void GetEvent(v1::GetEventRequest request, Done<v1::Event> done) override {
    const std::string tenant = TenantOf(request.name());
    Send(tenant, &EventApi::GetEvent, std::move(request), std::move(done));
  }
  void ListEvents(v1::ListEventsRequest request, Done<v1::ListEventsResponse> done) override {
    const std::string tenant = TenantOf(request.parent());
    Send(tenant, &EventApi::ListEvents, std::move(request), std::move(done));
  }
  void CancelEvent(v1::CancelEventRequest request, Done<v1::Event> done) override {
    const std::string tenant = TenantOf(request.name());
    Send(tenant, &EventApi::CancelEvent, std::move(request), std::move(done));
  }
  void IngestBatch(std::shared_ptr<const v1::IngestRequest> request, IngestOptions options,
                   Done<v1::IngestResponse> done) override {
    const absl::StatusOr<MasterService*> master = masters_.Of(TenantOf(request->parent()));
    if (!master.ok()) return Refuse(master.status(), std::move(done));
    (*master)->events().IngestBatch(std::move(request), options, std::move(done));
  }

 private:
  template <typename Request, typename Response>
  void Send(const std::string& tenant, void (EventApi::*method)(Request, Done<Response>),
            Request request, Done<Response> done) {
    const absl::StatusOr<MasterService*> master = masters_.Of(tenant);
    if (!master.ok()) return Refuse(master.status(), std::move(done));
    ((*master)->events().*method)(std::move(request), std::move(done));
  }
  template <typename Response>
  void Refuse(absl::Status status, Done<Response> done) {
    masters_.home().context().Refuse(std::move(status), std::move(done));
  }

  CellMasters& masters_;
};

namespace {

absl::Status Unreachable(uint32_t cell, absl::string_view problem) {
  return MakeError(absl::StatusCode::kUnavailable, "CELL_UNREACHABLE",
                   absl::StrCat(NameOfCell(cell), " cannot be reached: ", problem),
                   {{"resource", NameOfCell(cell)}});
}

constexpr absl::string_view kNotKnownYet = "this master does not know it yet";

}  // namespace

CellMasters::CellMasters(MasterOptions options, kv::KvStore& store, kv::StoreAdmin* admin,
                         Runtime& runtime)
    : options_(std::move(options)),
      admin_(admin),
      runtime_(runtime),
      home_(options_, store, runtime),
      home_life_(std::make_unique<SignOfLife>(home_.context())),
      events_(std::make_unique<Events>(*this)) {
  TenantService::Elsewhere elsewhere;
  elsewhere.shows = [this](const std::string& tenant, uint64_t version) {
    const TenantDirectory::Record record = home_.directory().Find(tenant);
    if (record == nullptr || record->cell() == kHomeCell) return true;
    Cell* const cell = Find(record->cell());
    return cell != nullptr && cell->Shows(tenant, version);
  };
  elsewhere.served = [this](uint32_t number) {
    if (number == kHomeCell) return true;
    Cell* const cell = Find(number);
    return cell != nullptr && cell->Problem().empty();
  };
  elsewhere.retire = [this](const storage::v1::TenantRecord& record, bool validate_only,
                            absl::AnyInvocable<void(absl::Status)> done) {
    Cell* const cell = Find(record.cell());
    if (cell == nullptr) return done(Unreachable(record.cell(), kNotKnownYet));
    if (const std::string problem = cell->Problem(); !problem.empty())
      return done(Unreachable(record.cell(), problem));
    RetireTenant(cell->service().context(), record, validate_only, std::move(done));
  };
  home_.tenants().SetElsewhere(std::move(elsewhere));
  home_.cells().SetSources({.tenants = [this] { return home_.tenants().Counts(); },
                            .reach = [this](uint32_t cell) { return Reach(cell); }});
  home_.tenant_rules().CountIn([this](const std::string& tenant) -> MasterContext* {
    const absl::StatusOr<MasterService*> master = Of(tenant);
    return master.ok() ? &(*master)->context() : nullptr;
  });
  home_.cell_directory().OnChange([this] { TakeCells(); });
}

// The cells' work uses the home cell's service, and its executor uses the cells.
CellMasters::~CellMasters() {
  home_.Stop();
  std::map<uint32_t, std::unique_ptr<Cell>> cells;
  absl::MutexLock lock(&mutex_);
  // They are destroyed without the lock, since they wait for calls that may want it.
  std::swap(cells, cells_);
}

void CellMasters::Start() { home_.Start(); }
EventApi& CellMasters::events() { return *events_; }

void CellMasters::TakeCells() {
  absl::MutexLock lock(&mutex_);
  if (draining_) return;
  for (const storage::v1::CellRecord& record : home_.cell_directory().All()) {
    if (record.cell() == kHomeCell || cells_.contains(record.cell())) continue;
    absl::StatusOr<OpenedStore> store = absl::UnimplementedError("this master has no clients");
    if (options_.open_store != nullptr) store = options_.open_store(record.store_address());
    if (!store.ok()) {
      Log(LogLevel::kError, "master.cells", "a cell cannot be served",
          {{"cell", record.cell()}, {"error", store.status().message()}});
      continue;
    }
    if (cells_.empty()) home_life_->Start();
    auto cell = std::make_unique<Cell>(options_, record.cell(), *std::move(store), runtime_, home_);
    cell->Start();
    cells_.emplace(record.cell(), std::move(cell));
  }
}

CellMasters::Cell* CellMasters::Find(uint32_t cell) const {
  absl::MutexLock lock(&mutex_);
  const auto found = cells_.find(cell);
  return found == cells_.end() ? nullptr : found->second.get();
}

absl::StatusOr<MasterService*> CellMasters::Of(const std::string& tenant) const {
  const TenantDirectory::Record record = home_.directory().Find(tenant);
  if (record == nullptr && !home_.directory().loaded()) return NotReady();
  if (record == nullptr || record->cell() == kHomeCell) return &home_;
  Cell* const cell = Find(record->cell());
  if (cell == nullptr) return Unreachable(record->cell(), kNotKnownYet);
  if (const std::string problem = cell->Problem(); !problem.empty())
    return Unreachable(record->cell(), problem);
  // A former tenant of this id is another one.
  const TenantDirectory::Record copy = cell->service().directory().Find(tenant);
  if (copy == nullptr || copy->create_time_micros() != record->create_time_micros())
    return Unreachable(record->cell(), "it does not know the tenant yet");
  return &cell->service();
}

absl::StatusOr<TokenApi*> CellMasters::DoorOf(uint32_t cell) const {
  Cell* const found = Find(cell);
  if (found == nullptr) return nullptr;
  if (const std::string problem = found->Problem(); !problem.empty())
    return Unreachable(cell, problem);
  return &found->door();
}

bool CellMasters::several() const {
  absl::MutexLock lock(&mutex_);
  return !cells_.empty();
}

bool CellMasters::HomeReady() const { return home_.Ready() && !home_life_->Silent(); }

bool CellMasters::Ready() const {
  if (!home_.directory().loaded()) return false;
  if (HomeReady()) return true;
  absl::MutexLock lock(&mutex_);
  for (const auto& [number, cell] : cells_)
    if (cell->Problem().empty()) return true;
  return false;
}

std::string CellMasters::Problems() const {
  std::string problems;
  const auto add = [&problems](uint32_t cell, absl::string_view problem) {
    absl::StrAppend(&problems, problems.empty() ? "" : "\n", NameOfCell(cell),
                    " is not served: ", problem);
  };
  absl::MutexLock lock(&mutex_);
  if (!cells_.empty() && !HomeReady()) add(kHomeCell, "its store does not answer");
  for (const auto& [number, cell] : cells_)
    if (const std::string problem = cell->Problem(); !problem.empty()) add(number, problem);
  return problems;
}

ReachedCell CellMasters::Reach(uint32_t cell) const {
  ReachedCell reached;
  for (const TenantDirectory::Record& record : home_.directory().All())
    if (record->cell() == cell) reached.tenants.push_back(record->tenant());
  if (cell == kHomeCell) {
    reached.context = &home_.context();
    reached.admin = admin_;
    if (!HomeReady()) reached.problem = "its store does not answer";
    return reached;
  }
  Cell* const found = Find(cell);
  if (found == nullptr) return reached;
  reached.context = &found->service().context();
  reached.admin = found->admin();
  reached.problem = found->Problem();
  return reached;
}

void CellMasters::Drain(Closure done) {
  std::vector<Cell*> cells;
  {
    absl::MutexLock lock(&mutex_);
    draining_ = true;
    for (const auto& [number, cell] : cells_) cells.push_back(cell.get());
  }
  const std::function<void()> drained = AtCall(cells.size() + 1, std::move(done));
  for (Cell* const cell : cells) cell->Drain(drained);
  home_.Drain(drained);
}

namespace {

int TokenCount(const v1::CompleteTokensRequest& request) { return request.completions_size(); }
absl::string_view TokenAt(const v1::CompleteTokensRequest& request, int i) {
  return request.completions(i).token();
}
void AddTokenTo(const v1::CompleteTokensRequest& request, int i, v1::CompleteTokensRequest& part) {
  *part.add_completions() = request.completions(i);
}

template <typename Request>
int TokenCount(const Request& request) {
  return request.tokens_size();
}
template <typename Request>
absl::string_view TokenAt(const Request& request, int i) {
  return request.tokens(i);
}
template <typename Request>
void AddTokenTo(const Request& request, int i, Request& part) {
  part.add_tokens(request.tokens(i));
}
v1::CompleteTokensRequest WithoutTokens(const v1::CompleteTokensRequest&) { return {}; }
v1::ReleaseTokensRequest WithoutTokens(const v1::ReleaseTokensRequest&) { return {}; }
v1::ExtendTokensRequest WithoutTokens(const v1::ExtendTokensRequest& request) {
  v1::ExtendTokensRequest part;
  if (request.has_hold()) *part.mutable_hold() = request.hold();
  return part;
}

// The answers to the parts of one request.
template <typename Response>
class JoinedTokens {
 public:
  JoinedTokens(int tokens, size_t parts, TokenApi::Done<Response> done)
      : left_(parts), done_(std::move(done)) {
    for (int i = 0; i < tokens; ++i)
      answer_->add_results()->set_status(v1::TokenResult::STATUS_UNSPECIFIED);
  }

  // `places` are those of the part's tokens in the request.
  void Take(const std::vector<int>& places, absl::StatusOr<std::unique_ptr<Response>> results) {
    {
      absl::MutexLock lock(&mutex_);
      if (!results.ok()) {
        failed_ = results.status();
      } else {
        for (size_t k = 0; k < places.size(); ++k)
          *answer_->mutable_results(places[k]) = (*results)->results(static_cast<int>(k));
      }
      if (left_ == 0 || --left_ > 0) return;
    }
    End();
  }
  // Answers without the parts that are not there.
  void GiveUp() {
    {
      absl::MutexLock lock(&mutex_);
      if (left_ == 0) return;
      left_ = 0;
      failed_ = MakeError(absl::StatusCode::kUnavailable, "RESULT_UNKNOWN",
                          "a cell does not answer; its tokens may have been given back");
    }
    End();
  }

 private:
  // Once, without the lock.
  void End() {
    absl::Status failed;
    std::unique_ptr<Response> answer;
    {
      absl::MutexLock lock(&mutex_);
      failed = failed_;
      answer = std::move(answer_);
    }
    if (!failed.ok()) return done_(std::move(failed));
    done_(std::move(answer));
  }

  absl::Mutex mutex_;
  size_t left_
      ABSL_GUARDED_BY(mutex_);  // parts without an answer; 0: the request has been answered
  absl::Status failed_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Response> answer_ ABSL_GUARDED_BY(mutex_) = std::make_unique<Response>();
  TokenApi::Done<Response> done_;
};

}  // namespace

template <typename Request, typename Response>
void CellTokens::GiveBack(const Request& request,
                          void (TokenApi::*method)(const Request&, Done<Response>),
                          Done<Response> done) {
  // A request that breaks the contract is refused as a whole.
  if (!masters_.several() || !CheckTokens(request).ok())
    return (home_.*method)(request, std::move(done));
  std::map<uint32_t, std::vector<int>> places;
  for (int i = 0; i < TokenCount(request); ++i)
    places[CellOfToken(TokenAt(request, i)).value_or(kHomeCell)].push_back(i);

  MasterContext& context = masters_.home().context();
  auto joined =
      std::make_shared<JoinedTokens<Response>>(TokenCount(request), places.size(), std::move(done));
  for (const auto& [cell, of_cell] : places) {
    // The home cell's door also refuses tokens of cells that are not known.
    absl::StatusOr<TokenApi*> door = cell == kHomeCell ? nullptr : masters_.DoorOf(cell);
    if (door.ok() && *door == nullptr) door = &home_;
    Request part = WithoutTokens(request);
    for (const int i : of_cell) AddTokenTo(request, i, part);
    auto take = [joined, of_cell = of_cell](absl::StatusOr<std::unique_ptr<Response>> results) {
      joined->Take(of_cell, std::move(results));
    };
    if (door.ok()) {
      ((*door)->*method)(part, std::move(take));
    } else {
      context.executor->Post([take = std::move(take), status = door.status()] { take(status); });
    }
  }
  if (places.size() > 1)
    context.executor->PostAfter(kCellsAnswerWithin, [joined] { joined->GiveUp(); });
}

void CellTokens::CompleteTokens(const v1::CompleteTokensRequest& request,
                                Done<v1::CompleteTokensResponse> done) {
  GiveBack(request, &TokenApi::CompleteTokens, std::move(done));
}

void CellTokens::ReleaseTokens(const v1::ReleaseTokensRequest& request,
                               Done<v1::ReleaseTokensResponse> done) {
  GiveBack(request, &TokenApi::ReleaseTokens, std::move(done));
}

void CellTokens::ExtendTokens(const v1::ExtendTokensRequest& request,
                              Done<v1::ExtendTokensResponse> done) {
  GiveBack(request, &TokenApi::ExtendTokens, std::move(done));
}

void CellTokens::OverridePolicy(v1::OverridePolicyRequest request,
                                ::escapement::Done<v1::ThrottlePolicy> done) {
  const absl::StatusOr<MasterService*> master = masters_.Of(TenantOf(request.name()));
  if (!master.ok()) return masters_.home().context().Refuse(master.status(), std::move(done));
  (*master)->policies().OverridePolicy(std::move(request), std::move(done));
}

}  // namespace escapement::master
