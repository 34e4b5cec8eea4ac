#include "common/process/service_process.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <fstream>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "common/auth/platform_gate.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/metrics/metrics.h"
#include "common/process/flag_sources.h"
#include "common/process/instance_file.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_server.h"
#include "common/rpc/host_port.h"
#include "common/rpc/rpc_table_grpc.h"
#include "common/runtime/system_runtime.h"
#include "common/tls/certificate_watch.h"
#include "common/tls/credentials_grpc.h"
#include "common/tls/tls_files.h"
#include "common/version/version.h"

ABSL_FLAG(std::string, listen, "", "host:port of the gRPC server; port 0 = any free port");
ABSL_FLAG(std::string, http_listen, "", "host:port of the HTTP server; port 0 = any free port");
ABSL_FLAG(std::vector<std::string>, http_host_names, {},
          "names by which clients reach the HTTP server, beside IP addresses and localhost; others "
          "are refused if this is set, and on loopback without credentials");
ABSL_FLAG(bool, insecure, false,
          "accept addresses beyond loopback without TLS and required credentials");
ABSL_FLAG(std::string, port_file, "",
          "file to which the process writes its addresses when it is ready");
ABSL_FLAG(std::string, config, "", "YAML file with flags");
ABSL_FLAG(bool, print_config, false, "print the flags in force as a config file and exit");
ABSL_FLAG(bool, version, false, "print the version and exit");
ABSL_FLAG(std::string, log_level, "info", "debug, info, warning or error");
ABSL_FLAG(std::string, instance, "",
          "name of this process; must be unique for each start; empty = made up");
ABSL_FLAG(
    std::string, instance_file, "",
    "file that this process locks while it lives; a process that is started again with the same "
    "file need not wait for the leases of the one that died; on a local disk, one for each "
    "process");
ABSL_FLAG(absl::Duration, drain_timeout, absl::Seconds(15),
          "how long the process may take after SIGTERM to finish work under way");

namespace escapement {
namespace {

// How often gRPC health is set from HostedService::Ready: before the service is ready, and after.
constexpr absl::Duration kHealthEvery = absl::Milliseconds(200);
constexpr absl::Duration kReadyHealthEvery = absl::Seconds(1);
constexpr rlim_t kFilesEnough = 4096;
// Time for calls that are still open after the drain, such as watches.
constexpr absl::Duration kCallGrace = absl::Milliseconds(500);

bool OnLoopback(const absl::Flag<std::string>& listen) {
  const auto address = ParseHostPort(absl::GetFlag(listen));
  return address.ok() && address->IsLoopback();
}

void CheckListenFlag(const char* name, const std::string& value, std::vector<std::string>& errors) {
  const auto address = ParseHostPort(value);
  const absl::Status status = address.ok()
                                  ? CheckListen(*address, ServesTls(), auth::CredentialsRequired(),
                                                absl::GetFlag(FLAGS_insecure))
                                  : address.status();
  if (!status.ok()) errors.push_back(absl::StrCat("--", name, ": ", status.message()));
}

// Raises the limit of open files to the hard limit. A shell's usual limit is less than the
// connections of a handler with many targets, and a store that can open no file ends.
void RaiseFileLimit() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_max < kFilesEnough) {
    Log(LogLevel::kWarning, "service", "few files may be open: many targets may be out of reach",
        {{"files_max", limit.rlim_max}});
  }
}

// Returns false, with the exit code set, if the process must end here.
bool ReadConfiguration(int argc, char** argv, const ServiceDefinition& definition, int& exit_code) {
  absl::SetFlag(&FLAGS_listen, definition.listen);
  absl::SetFlag(&FLAGS_http_listen, definition.http_listen);
  AppliedFlags applied =
      ApplyFlags({std::vector<std::string>(argv + 1, argv + argc), ProcessEnvironment()});
  exit_code = 0;
  if (applied.help) {
    std::printf("%s: %s\n\n%s", definition.name.c_str(), definition.description.c_str(),
                FlagsHelp().c_str());
    return false;
  }
  if (absl::GetFlag(FLAGS_version)) {
    std::printf("%s\n", VersionLine(InstalledName(definition.name)).c_str());
    return false;
  }
  ValidateTlsFlags(applied.errors);
  CheckListenFlag("listen", absl::GetFlag(FLAGS_listen), applied.errors);
  CheckListenFlag("http_listen", absl::GetFlag(FLAGS_http_listen), applied.errors);
  LogLevel level;
  if (!ParseLogLevel(absl::GetFlag(FLAGS_log_level), &level)) {
    applied.errors.push_back("--log_level: must be debug, info, warning or error");
  }
  if (absl::GetFlag(FLAGS_drain_timeout) < absl::ZeroDuration()) {
    applied.errors.push_back("--drain_timeout: must not be negative");
  }
  auth::ValidateAuthFlags(applied.errors);
  if (definition.validate) definition.validate(applied.errors);
  for (const std::string& error : applied.errors)
    std::fprintf(stderr, "%s: %s\n", definition.name.c_str(), error.c_str());
  if (!applied.errors.empty()) {
    exit_code = 2;
    return false;
  }
  if (absl::GetFlag(FLAGS_print_config)) {
    std::fputs(FlagsAsYaml().c_str(), stdout);
    return false;
  }
  return true;
}

sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);  // the terminal was closed
  return signals;
}

// Writes the file so that its line is complete as soon as the file exists.
bool WritePortFile(const std::string& path, const std::string& line) {
  const std::string draft = absl::StrCat(path, ".new");
  {
    std::ofstream out(draft, std::ios::trunc);
    out << line << "\n";
    if (!out.flush()) return false;
  }
  return std::rename(draft.c_str(), path.c_str()) == 0;
}

// The certificate files of a process.
struct ProcessTls {
  std::shared_ptr<TlsFiles> server;               // null: the ports are without TLS
  std::shared_ptr<TlsFiles> peer;                 // null: calls to the store are without TLS
  std::vector<std::shared_ptr<TlsFiles>> others;  // that libraries read
};

absl::StatusOr<ProcessTls> LoadTls(const ServiceDefinition& definition) {
  ProcessTls tls;
  ASSIGN_OR_RETURN(tls.server, ServerTlsFromFlags());
  ASSIGN_OR_RETURN(tls.peer, PeerTlsFromFlags());
  std::vector<TlsPaths> others = auth::IssuerCertificates();
  if (definition.certificates != nullptr) {
    for (TlsPaths& paths : definition.certificates()) others.push_back(std::move(paths));
  }
  for (TlsPaths& paths : others) {
    auto files = TlsFiles::Load(std::move(paths));
    if (files.ok()) {
      tls.others.push_back(*std::move(files));
    } else {
      Log(LogLevel::kWarning, "tls", "a certificate file is not watched",
          {{"error", files.status().message()}});
    }
  }
  return tls;
}

std::vector<std::shared_ptr<TlsFiles>> AllOf(ProcessTls tls) {
  std::vector<std::shared_ptr<TlsFiles>> all = std::move(tls.others);
  if (tls.server != nullptr) all.push_back(tls.server);
  if (tls.peer != nullptr) all.push_back(tls.peer);
  return all;
}

class Process {
 public:
  Process(const ServiceDefinition& definition, ProcessTls tls)
      : definition_(definition),
        tls_(tls.server),
        peer_(tls.peer == nullptr ? nullptr : std::make_unique<PeerCredentials>(tls.peer)),
        certificates_(metrics_, AllOf(std::move(tls))),
        http_({.listen = absl::GetFlag(FLAGS_http_listen),
               .tls = tls_,
               .credentials = auth::CredentialsRequired(),
               .insecure = absl::GetFlag(FLAGS_insecure),
               .host_names = absl::GetFlag(FLAGS_http_host_names)}) {}

  int Run() {
    metrics_
        .GetGauge("escapement_build_info", "1, with the version and commit of the program.",
                  {{"program", definition_.name},
                   {"version", std::string(Version())},
                   {"commit", std::string(Commit())}})
        ->Set(1);
    const absl::Status started = Start();
    if (!started.ok()) {
      Log(LogLevel::kError, "process", "could not start", {{"error", started.ToString()}});
      std::fprintf(stderr, "%s: could not start: %s\n", definition_.name.c_str(),
                   started.ToString().c_str());
      Stop();
      return 1;
    }
    WaitForSignal();
    const bool drained = Drain();
    Stop();
    return drained ? 0 : 1;
  }

 private:
  absl::Status Start() {
    std::string instance = absl::GetFlag(FLAGS_instance);
    if (instance.empty()) {
      instance = absl::StrCat(definition_.name, "-",
                              absl::Hex(runtime_.random().Next(), absl::kZeroPad16));
    }
    RETURN_IF_ERROR(LockInstanceFile(instance));
    ASSIGN_OR_RETURN(
        auto service,
        definition_.make(ServiceContext{
            .runtime = runtime_,
            .metrics = metrics_,
            .instance = instance,
            .dead_instances = instance_file_ == nullptr ? std::vector<std::string>()
                                                        : instance_file_->dead_instances(),
            .drain_timeout = absl::GetFlag(FLAGS_drain_timeout),
            .on_loopback = OnLoopback(FLAGS_listen) && OnLoopback(FLAGS_http_listen),
            .store_credentials = peer_ == nullptr ? nullptr : peer_->channel()}));
    service_ = std::move(service);
    AddRoutes();
    service_->AddRpcs(rpcs_);
    ASSIGN_OR_RETURN(
        auto grpc, GrpcServer::Start(
                       {.listen = absl::GetFlag(FLAGS_listen),
                        .tls = tls_,
                        .credentials = auth::CredentialsRequired(),
                        .insecure = absl::GetFlag(FLAGS_insecure),
                        .receive_bytes_max = definition_.receive_bytes_max,
                        .connection_age = definition_.connection_age ? definition_.connection_age()
                                                                     : absl::InfiniteDuration(),
                        .metrics = &call_metrics_},
                       rpcs_, service_->gate()));
    grpc_ = std::move(grpc);
    RETURN_IF_ERROR(service_->AddHttpRoutes(http_, grpc_->InProcessChannel()));
    RETURN_IF_ERROR(http_.Start());
    RETURN_IF_ERROR(service_->Start());
    UpdateHealth();

    const std::string line =
        absl::StrCat("listening grpc=", grpc_->address(), " http=", http_.address());
    const std::string port_file = absl::GetFlag(FLAGS_port_file);
    if (!port_file.empty() && !WritePortFile(port_file, line)) {
      return absl::UnavailableError(absl::StrCat("cannot write ", port_file));
    }
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
    Log(LogLevel::kInfo, "process", "started",
        {{"instance", instance},
         {"grpc", grpc_->address()},
         {"http", http_.address()},
         {"tls", tls_ == nullptr ? "no" : "yes"},
         {"version", std::string(Version())},
         {"commit", std::string(Commit())}});
    return absl::OkStatus();
  }

  absl::Status LockInstanceFile(const std::string& instance) {
    std::string path = absl::GetFlag(FLAGS_instance_file);
    if (path.empty() && definition_.instance_file != nullptr) path = definition_.instance_file();
    if (path.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(auto locked, InstanceFile::Lock(path, instance, runtime_.clock().BootId()));
    instance_file_ = std::move(locked);
    return absl::OkStatus();
  }

  void AddRoutes() {
    http_.RouteSync("GET", "/healthz",
                    [](const HttpRequest&) { return HttpResponse{.body = "ok\n"}; });
    http_.RouteSync("GET", "/readyz",
                    [this](const HttpRequest&) { return AnswerReadyz(UpdateHealth(), *service_); });
    http_.RouteSync("GET", "/metrics", [this](const HttpRequest&) {
      return HttpResponse{.content_type = "text/plain; version=0.0.4; charset=utf-8",
                          .body = metrics_.Serialize()};
    });
  }

  // Sets gRPC health from Ready() now, so that both ports answer the same.
  bool UpdateHealth() {
    absl::MutexLock lock(&health_mutex_);
    const bool ready = !draining_ && service_->Ready();
    ready_->Set(ready ? 1 : 0);
    grpc_->SetServing(ready);
    return ready;
  }

  void WaitForSignal() {
    const sigset_t signals = StopSignals();
    timespec every;
    do {
      certificates_.Step();
      if (peer_ != nullptr) peer_->Refresh();
      every = absl::ToTimespec(UpdateHealth() ? kReadyHealthEvery : kHealthEvery);
    } while (sigtimedwait(&signals, nullptr, &every) < 0);
    // From now on a second signal ends the process by its default action.
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  }

  bool Drain() {
    Log(LogLevel::kInfo, "process", "draining");
    {
      absl::MutexLock lock(&health_mutex_);
      draining_ = true;
    }
    UpdateHealth();
    // Shared, because the service may still call it after the deadline.
    auto drained = std::make_shared<absl::Notification>();
    service_->Drain([drained] { drained->Notify(); });
    const bool in_time =
        drained->WaitForNotificationWithTimeout(absl::GetFlag(FLAGS_drain_timeout));
    if (!in_time) Log(LogLevel::kWarning, "process", "the drain did not end in time");
    return in_time;
  }

  // In the reverse order of Start. HTTP stops first, because its handlers ask the service.
  void Stop() {
    http_.Shutdown();
    if (grpc_ != nullptr) grpc_->Shutdown(kCallGrace);
    grpc_.reset();
    service_.reset();
    Log(LogLevel::kInfo, "process", "stopped");
  }

  const ServiceDefinition& definition_;
  const std::shared_ptr<TlsFiles> tls_;
  const std::unique_ptr<PeerCredentials> peer_;  // null: none
  SystemRuntime runtime_;
  Metrics metrics_;
  CertificateWatch certificates_;
  CallMetrics call_metrics_{metrics_, runtime_.clock()};
  const ProcessMetrics process_metrics_{metrics_};
  // Set by UpdateHealth, so at least once a second.
  Gauge* const ready_ = metrics_.GetGauge("escapement_ready", "1 while /readyz answers 200.",
                                          {{"program", definition_.name}});
  HttpServer http_;
  std::unique_ptr<InstanceFile> instance_file_;  // locked as long as the service lives
  std::unique_ptr<HostedService> service_;
  RpcTable rpcs_;  // outlives the server
  std::unique_ptr<GrpcServer> grpc_;
  absl::Mutex health_mutex_;
  bool draining_ ABSL_GUARDED_BY(health_mutex_) = false;
};

void StartLoggingFromFlags(const ServiceDefinition& definition) {
  LogLevel level = LogLevel::kInfo;
  ParseLogLevel(absl::GetFlag(FLAGS_log_level), &level);
  StartLogging(definition.name, level);
}

// Signals end the process at once.
int RunTask(const ServiceDefinition& definition,
            const std::function<absl::Status(Runtime&)>& task) {
  StartLoggingFromFlags(definition);
  SystemRuntime runtime;
  const absl::Status status = task(runtime);
  StopLogging();
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s: %s\n", definition.name.c_str(), status.ToString().c_str());
  return 1;
}

}  // namespace

HttpResponse AnswerReadyz(bool ready, HostedService& service) {
  std::string reason = service.NotReadyReason();
  if (ready) return {.body = reason.empty() ? "ok\n" : absl::StrCat("ok\n", reason, "\n")};
  if (reason.empty()) reason = "not ready";
  return {.status = 503, .body = reason + "\n"};
}

int RunService(int argc, char** argv, const ServiceDefinition& definition) {
  // Debian builds Abseil with its debugging aids, which enter each lock into a graph (4 % of a busy
  // process). Only tests keep them on.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  int exit_code = 0;
  if (!ReadConfiguration(argc, argv, definition, exit_code)) return exit_code;
  // Files of the process have users' data: snapshots and backups, too.
  umask(0077);
  const auto task = definition.task != nullptr ? definition.task() : nullptr;
  if (task != nullptr) return RunTask(definition, task);
  // Before any thread exists, so that all threads inherit the mask and only WaitForSignal takes the
  // signals.
  const sigset_t signals = StopSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  StartLoggingFromFlags(definition);
  RouteGrpcLog();
  RaiseFileLimit();
  if (absl::GetFlag(FLAGS_insecure)) {
    Log(LogLevel::kWarning, "process",
        "--insecure is set: whoever reaches the ports may call them");
  }
  if (auth::CredentialsRequired() && ClientsMayPassForServices()) {
    Log(LogLevel::kWarning, "process",
        "services and clients have the same certificate authority: whoever it gives a certificate "
        "with the name of a service may do everything; --tls_service_ca sets them apart");
  }
  auto tls = LoadTls(definition);
  if (tls.ok()) {
    exit_code = Process(definition, *std::move(tls)).Run();
  } else {
    std::fprintf(stderr, "%s: could not start: %s\n", definition.name.c_str(),
                 tls.status().ToString().c_str());
    exit_code = 1;
  }
  StopLogging();
  return exit_code;
}

}  // namespace escapement
