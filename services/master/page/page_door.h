// PageDoor: the page at /ui, its session, and the facts that it shows beyond the REST API.
//
//   GET    /ui, /ui/…            index.html: the page reads the rest of the path itself
//   GET    /ui/files/{version}/  the page's files; they never change under one version
//   POST   /ui/session           signs in: {"key": "esc_…"}, or Authorization: Bearer
//   GET    /ui/session           who the caller is: principal, role, tenant
//   DELETE /ui/session           signs out
//   GET    /ui/platform          instances and the leases that they own; for callers of all tenants
//
// The gate decides who the caller is. The rest of the page's data comes from REST.
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
#include "common/rpc/method_access.h"

namespace escapement::master {

class PageDoor {
 public:
  // Both outlive it. `cors_origins` as in RestDoor.
  PageDoor(CallGate& gate, kv::KvStore& store, std::vector<std::string> cors_origins);

  // The door must outlive the server's thread.
  absl::Status AddTo(HttpServer& http);

 private:
  void Session(HttpRequest request, const HttpResponder& respond);
  void SignIn(const HttpRequest& request, const HttpResponder& respond);
  void ShowPlatform(HttpRequest request, HttpResponder respond);
  absl::StatusOr<std::shared_ptr<const Caller>> Identify(const HttpRequest& request) const;

  CallGate& gate_;
  kv::KvStore& store_;
  const std::vector<std::string> cors_origins_;
  // A method that every caller may call.
  std::unique_ptr<const MethodAccess> least_;
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
