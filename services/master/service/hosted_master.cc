#include "services/master/service/hosted_master.h"

#include <google/protobuf/descriptor.h>

#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/kv/wire/store_service_grpc.h"
#include "common/process/store_client.h"
#include "common/rest/docs/docs_page.h"
#include "common/rest/route_table.h"
#include "common/secrets/sealed_value.h"
#include "common/tokens/token_grpc.h"
#include "services/master/base/limits.h"
#include "services/master/ingest/kafka/kafka_ingest.h"
#include "services/master/page/browser_session.h"
#include "services/master/service/cell_masters.h"
#include "services/master/service/master_grpc.h"
#include "services/master/tenants/tenant_rules.h"

ABSL_FLAG(std::vector<std::string>, cors_origins, {},
          "origins whose web pages may call the REST API, e.g. https://ops.example.com; * = any");

ABSL_FLAG(std::string, bootstrap_key_file, "",
          "file with the first API key, made by `escctl admin bootstrap`; its owner is an admin of "
          "all tenants");

ABSL_FLAG(absl::Duration, connection_age, absl::Minutes(5),
          "how long a gRPC connection takes calls; then the client connects again, perhaps to "
          "another master behind the same address; open calls stay; 0 = for ever");

ABSL_FLAG(absl::Duration, dead_letter_retention, absl::Hours(24 * 30),
          "how long dead letters are kept; at least 1h");

ABSL_FLAG(absl::Duration, heartbeat_every, absl::ZeroDuration(),
          "interval of the platform's own schedule, which shows in metrics that the whole platform "
          "works; 0 = none; the same for all masters");

namespace escapement::master {
namespace {

const std::vector<std::string>& RestServices() {
  static const auto* const services = new std::vector<std::string>{
      "escapement.v1.ScheduleService",     "escapement.v1.PolicyService",
      "escapement.v1.EventService",        "escapement.v1.RunService",
      "escapement.v1.TokenService",        "escapement.v1.StoreService",
      "escapement.v1.TenantService",       "escapement.v1.KeyService",
      "escapement.v1.AuditService",        "escapement.v1.TargetService",
      "escapement.v1.DeadLetterService",   "escapement.v1.OperationService",
      "escapement.v1.CalendarService",     "escapement.v1.StatisticsService",
      "escapement.v1.NotificationService", "escapement.v1.CellService"};
  return *services;
}

// The description of the REST API, and a page that shows it.
void AddDescription(HttpServer& http) {
  http.RouteSync("GET", "/openapi.json", [](const HttpRequest&) {
    return HttpResponse{.content_type = "application/json",
                        .body = std::string(rest::OpenApiJson())};
  });
  for (const rest::DocsFile& file : rest::DocsFiles()) {
    http.RouteSync("GET", std::string(file.path), [file](const HttpRequest&) {
      return HttpResponse{.content_type = std::string(file.content_type),
                          .headers = {{"Content-Security-Policy",
                                       "default-src 'none'; script-src 'self'; style-src 'self'; "
                                       "connect-src 'self'; frame-ancestors 'none'"},
                                      {"X-Content-Type-Options", "nosniff"}},
                          .body = std::string(file.body)};
    });
  }
}

OpenStore StoreClients(const ServiceContext& context) {
  return [&runtime = context.runtime, credentials = context.store_credentials](
             const std::string& address) -> absl::StatusOr<OpenedStore> {
    ASSIGN_OR_RETURN(std::vector<std::string> addresses, ParseStoreAddresses(address));
    auto store = NewStoreClient(runtime, credentials, std::move(addresses));
    OpenedStore opened;
    opened.admin = store.get();
    opened.too_old = [store = store.get()] { return store->TooOld(); };
    opened.store = std::move(store);
    return opened;
  };
}

}  // namespace

HostedMaster::HostedMaster(const ServiceContext& context, kv::KvStore& store, kv::StoreAdmin& admin,
                           TokenApi* tokens)
    : masters_({.instance = context.instance,
                .open_store = StoreClients(context),
                .dead_letter_retention = absl::GetFlag(FLAGS_dead_letter_retention),
                .bootstrap_key_file = absl::GetFlag(FLAGS_bootstrap_key_file),
                .heartbeat_every = absl::GetFlag(FLAGS_heartbeat_every),
                .account_every = kAccountLoopEvery,
                .notify_every = kNotifyEvery,
                .sealer = SealerFromFlag(),
                .metrics = &context.metrics},
               store, &admin, context.runtime),
      gate_(context.instance, store, context.runtime, &masters_.home().tenant_rules(),
            /*serves_page=*/true),
      store_(store),
      admin_(admin),
      runtime_(context.runtime),
      metrics_(context.metrics) {
  if (tokens == nullptr) {
    TokenDoor::Options options;
    options.instance = context.instance;
    options.metrics = &context.metrics;
    door_ = std::make_unique<TokenDoor>(std::move(options), store, context.runtime);
    tokens = door_.get();
  }
  tokens_ = std::make_unique<CellTokens>(masters_, *tokens);
}

void HostedMaster::AddRpcs(RpcTable& table) {
  AddMasterRpcs(masters_, table);
  kv::AddStoreServiceRpcs(store_, &admin_, table);
  AddTokenRpcs(*tokens_, table);
}

absl::Status HostedMaster::AddHttpRoutes(HttpServer& http,
                                         std::shared_ptr<grpc::Channel> in_process) {
  ASSIGN_OR_RETURN(
      auto routes,
      rest::RouteTable::Build(*google::protobuf::DescriptorPool::generated_pool(), RestServices()));
  const std::vector<std::string> origins = absl::GetFlag(FLAGS_cors_origins);
  const auto admit = [origins](HttpRequest& request) { return AdmitBrowser(origins, request); };
  ndjson_ = std::make_unique<NdjsonDoor>(in_process, runtime_, admit);
  for (const rest::RestRoute& route : routes.line_routes()) ndjson_->AddTo(http, route);
  rest_ = std::make_unique<rest::RestDoor>(
      std::move(routes), std::move(in_process),
      rest::RestDoor::Options{.cors_origins = origins, .admit = admit});
  rest_->AddTo(http);
  page_ = std::make_unique<PageDoor>(gate_.gate(), gate_.sign_in(), store_, runtime_, metrics_,
                                     origins);
  page_->AddTo(http);
  AddDescription(http);
  return absl::OkStatus();
}

absl::Status HostedMaster::Start() {
  masters_.Start();
  gate_.Start();
  if (door_ != nullptr) door_->Start();
  absl::Status started = StartKafka();
  kafka_failed_ = !started.ok();
  return started;
}

absl::Status HostedMaster::StartKafka() {
  ASSIGN_OR_RETURN(auto kafka, KafkaIngestOptionsFromFlags());
  if (!kafka.has_value()) return absl::OkStatus();
  kafka_ = std::make_unique<KafkaIngest>(*std::move(kafka),
                                         KafkaIngest::Host{.events = masters_.events(),
                                                           .gate = gate_.gate(),
                                                           .runtime = runtime_,
                                                           .metrics = metrics_,
                                                           .ready = [this] { return Ready(); }});
  absl::Status started = kafka_->Start();
  if (!started.ok()) kafka_.reset();
  return started;
}

bool HostedMaster::Ready() {
  // Without the home cell it serves the others.
  return !kafka_failed_ && masters_.Ready() && gate_.Ready() &&
         (door_ == nullptr || door_->Ready() || !masters_.HomeReady());
}

std::string HostedMaster::NotReadyReason() {
  if (kafka_failed_) return "the ingestion from Kafka could not start: the log says why";
  return masters_.Problems();
}

void HostedMaster::Drain(Closure done) {
  if (kafka_ == nullptr) return DrainDoors(std::move(done));
  // First, while the service still answers.
  kafka_->Stop([this, done = std::move(done)]() mutable { DrainDoors(std::move(done)); });
}

void HostedMaster::DrainDoors(Closure done) {
  if (door_ == nullptr) return masters_.Drain(std::move(done));
  // The door waits for what is under way, which without the store may take long.
  masters_.Drain([this, done = std::move(done)]() mutable { door_->Drain(std::move(done)); });
}

absl::Duration ConnectionAgeFromFlag() {
  const absl::Duration age = absl::GetFlag(FLAGS_connection_age);
  return age == absl::ZeroDuration() ? absl::InfiniteDuration() : age;
}

void ValidateMasterFlags(std::vector<std::string>& errors) {
  ValidateKafkaIngestFlags(errors);
  auth::ValidateSignInFlags(errors);
  if (absl::GetFlag(FLAGS_dead_letter_retention) < absl::Hours(1))
    errors.push_back("--dead_letter_retention: must be at least 1h");
  const absl::Duration age = absl::GetFlag(FLAGS_connection_age);
  if (age != absl::ZeroDuration() && (age < absl::Seconds(1) || age > absl::Hours(24)))
    errors.push_back("--connection_age: must be 0, or 1s to 24h");
  const absl::Duration heartbeat = absl::GetFlag(FLAGS_heartbeat_every);
  if (heartbeat != absl::ZeroDuration() && heartbeat < absl::Seconds(1))
    errors.push_back("--heartbeat_every: must be 0 or at least 1s");
  for (const std::string& origin : absl::GetFlag(FLAGS_cors_origins)) {
    if (origin == "*" ||
        ((absl::StartsWith(origin, "http://") || absl::StartsWith(origin, "https://")) &&
         origin.find('/', 8) == std::string::npos))
      continue;
    errors.push_back(absl::StrCat("--cors_origins: \"", origin,
                                  "\" is not an origin such as https://ops.example.com"));
  }
}

}  // namespace escapement::master
