// PageDoor: the page at /ui, its session, and the facts that it shows beyond the REST API.
//
//   GET    /ui, /ui/…            index.html: the page reads the rest of the path itself
//   GET    /ui/files/{version}/  the page's files; they never change under one version
//   POST   /ui/session           signs in: {"key": "esc_…"}, or Authorization: Bearer
//   GET    /ui/session           who the caller is: principal, role, tenant
//   DELETE /ui/session           signs out
//   GET    /ui/platform          instances and the leases that they own; for callers of all tenants
//
// The gate decides who the caller is. The rest of the page's data comes from REST. Sign-ins are
// audited as "SignIn"; after failures the client's address must wait (SignInLimit). The calls are
// counted as the methods ui/SignIn, ui/GetSession and ui/GetPlatform of CallMetrics.
//
// Threads: the HTTP server's.

#ifndef SERVICES_MASTER_PAGE_PAGE_DOOR_H_
#define SERVICES_MASTER_PAGE_PAGE_DOOR_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/http/http_server.h"
#include "common/kv/kv_store.h"
#include "common/rpc/call_gate.h"
#include "common/rpc/grpc_server.h"
#include "common/rpc/method_access.h"
#include "common/runtime/runtime.h"
#include "services/master/page/browser_session.h"

namespace escapement::master {

class PageDoor {
 public:
  // All outlive it. `cors_origins` as in RestDoor.
  PageDoor(CallGate& gate, kv::KvStore& store, Runtime& runtime, Metrics& metrics,
           std::vector<std::string> cors_origins);

  // The door must outlive the server's thread.
  void AddTo(HttpServer& http);

 private:
  void Session(HttpRequest request, const HttpResponder& respond);
  void SignIn(const HttpRequest& request, const HttpResponder& respond);
  void ShowPlatform(HttpRequest request, HttpResponder respond);
  using Admitted = absl::StatusOr<std::shared_ptr<const Caller>>;
  // Asks the gate, and counts the call.
  Admitted Admit(const MethodAccess& method, const HttpRequest& request);
  Admitted AdmitSignIn(const HttpRequest& request, const std::string& credential);

  CallGate& gate_;
  kv::KvStore& store_;
  Clock& clock_;
  CallMetrics metrics_;
  const std::vector<std::string> cors_origins_;
  const MethodAccess sign_in_;
  const MethodAccess get_session_;
  const MethodAccess get_platform_;
  SignInLimit failures_;
};

// The files of the page (//web), joined and packed by gzip at build time.

struct PageFile {
  absl::string_view path;  // "app.js"
  absl::string_view content_type;
  absl::string_view gzip;
};

// Any thread.
const std::vector<PageFile>& PageFiles();

// 16 hex digits that follow from the bytes of all files.
absl::string_view PageVersion();

}  // namespace escapement::master

#endif  // SERVICES_MASTER_PAGE_PAGE_DOOR_H_
