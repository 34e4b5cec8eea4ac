// PageDoor: the page at /ui, its session, and the facts that it shows beyond the REST API.
//
//   GET    /ui, /ui/…            index.html: the page reads the rest of the path itself
//   GET    /ui/files/{version}/  the page's files; they never change under one version
//   POST   /ui/session           signs in: {"key": "esc_…"}, or Authorization: Bearer
//   GET    /ui/session           the caller: principal, role, tenant, and renewAfter: seconds
//                                until its session should be renewed, if it can be
//   DELETE /ui/session           signs out; says where the issuer's own session ends, if it has one
//   POST   /ui/session/renewal   renews a session that a sign-in with an issuer began
//   GET    /ui/issuers           the issuers with which people sign in
//   GET    /ui/sign-in           ?issuer=…&return=…: begins such a sign-in (oidc_sign_in.h)
//   GET    /ui/signed-in         the issuer redirects here. The session begins, and the browser
//                                gets to the view that it asked for; after a failure with
//                                ?sign_in= state, refused, no_rights, invalid, wait or unavailable
//   GET    /ui/platform          instances and the leases that they own; for callers of all tenants
//
// The gate decides who the caller is. The rest of the page's data comes from REST. Sign-ins are
// audited as "SignIn"; after failures the client's address must wait (SignInLimit). The calls are
// counted as the methods ui/SignIn, ui/GetSession and ui/GetPlatform of CallMetrics.
//
// Threads: the HTTP server's, and for answers of issuers theirs.

#ifndef SERVICES_MASTER_PAGE_PAGE_DOOR_H_
#define SERVICES_MASTER_PAGE_PAGE_DOOR_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "common/auth/oidc_sign_in.h"
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
  // All outlive it. `sign_in` may be null: people sign in with keys only. `cors_origins` as in
  // RestDoor.
  PageDoor(CallGate& gate, auth::OidcSignIn* sign_in, kv::KvStore& store, Runtime& runtime,
           Metrics& metrics, std::vector<std::string> cors_origins);
  // Stops `sign_in`.
  ~PageDoor();

  // The door must outlive the server's thread.
  void AddTo(HttpServer& http);

 private:
  void Session(HttpRequest request, const HttpResponder& respond);
  void SignIn(const HttpRequest& request, const HttpResponder& respond);
  void SignOut(const HttpRequest& request, const HttpResponder& respond);
  void RenewSession(HttpRequest request, const HttpResponder& respond);
  void BeginSignIn(const HttpRequest& request, HttpResponder respond);
  void FinishSignIn(HttpRequest request, HttpResponder respond);
  // The answer to the issuer's redirect.
  HttpResponse Finished(const HttpRequest& request, auth::OidcSignIn::Finished finished);
  void ShowPlatform(HttpRequest request, HttpResponder respond);
  using Admitted = absl::StatusOr<std::shared_ptr<const Caller>>;
  // Asks the gate, and counts the call.
  Admitted Admit(const MethodAccess& method, const HttpRequest& request);
  Admitted AdmitSignIn(const HttpRequest& request, const std::string& credential);
  // RESOURCE_EXHAUSTED: sign-ins from this address have failed too often.
  absl::Status CheckFailures(const HttpRequest& request);
  void NoteFailure(const HttpRequest& request);

  CallGate& gate_;
  auth::OidcSignIn* const sign_in_flow_;
  kv::KvStore& store_;
  Clock& clock_;
  CallMetrics metrics_;
  const std::vector<std::string> cors_origins_;
  const MethodAccess sign_in_;
  const MethodAccess get_session_;
  const MethodAccess get_platform_;
  absl::Mutex mutex_;
  SignInLimit failures_ ABSL_GUARDED_BY(mutex_);
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
