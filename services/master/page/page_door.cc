#include "services/master/page/page_door.h"

#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "common/base/bounded_json.h"
#include "common/base/key_codec.h"
#include "common/http/header_grammar.h"
#include "common/lease/lease_table.h"
#include "common/rest/json_bytes.h"
#include "common/rest/request_reader.h"
#include "common/status/errors.h"
#include "nlohmann/json.hpp"

namespace escapement::master {

namespace {

using nlohmann::json;

constexpr char kFilesPrefix[] = "/ui/files/";
constexpr size_t kFileBytesMax = 4 << 20;
// Leases and members of one kind that the page shows.
constexpr uint32_t kRowsMax = 2000;
constexpr const char* kKinds[] = {"partition", "queue_shard", "policy_shard"};

// Images are inline data of the style sheet: the marks of controls.
constexpr char kContentSecurityPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'";

HttpResponse JsonAnswer(const json& body) {
  return {.content_type = "application/json",
          .headers = rest::AnswerHeaders(),
          .body = body.dump(-1, ' ', false, json::error_handler_t::replace) + "\n"};
}

HttpResponse FileAnswer(const HttpRequest& request, const PageFile& file, bool immutable) {
  HttpResponse response;
  const std::string etag = absl::StrCat("W/\"", PageVersion(), "\"");
  response.content_type = std::string(file.content_type);
  response.headers = {
      {"ETag", etag},
      {"Cache-Control", immutable ? "public, max-age=31536000, immutable" : "no-cache"},
      {"Vary", "Accept-Encoding"},
      {"Content-Security-Policy", kContentSecurityPolicy},
      {"X-Content-Type-Options", "nosniff"},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Opener-Policy", "same-origin"},
      {"Cross-Origin-Resource-Policy", "same-origin"}};
  if (NamesEntityTag(request.Header("if-none-match"), etag)) {
    response.status = 304;
    return response;
  }
  if (AcceptsCoding(request.Header("accept-encoding"), "gzip")) {
    response.headers.emplace_back("Content-Encoding", "gzip");
    response.body = std::string(file.gzip);
    return response;
  }
  auto plain = rest::Gunzipped(file.gzip, kFileBytesMax);
  if (!plain.ok()) return rest::ErrorAnswer(plain.status());
  response.body = *std::move(plain);
  return response;
}

const PageFile* FindFile(absl::string_view path) {
  for (const PageFile& file : PageFiles()) {
    if (file.path == path) return &file;
  }
  return nullptr;
}

HttpResponse ShowFile(const HttpRequest& request) {
  absl::string_view path = request.path;
  if (!absl::ConsumePrefix(&path, kFilesPrefix))
    return FileAnswer(request, *FindFile("index.html"), false);
  const size_t slash = path.find('/');
  const PageFile* file = slash == path.npos ? nullptr : FindFile(path.substr(slash + 1));
  if (file == nullptr) return {.status = 404, .body = "not found\n"};
  // Another version's page asks during an upgrade: it gets this version's file, which it must not
  // keep.
  return FileAnswer(request, *file, path.substr(0, slash) == PageVersion());
}

MethodAccess CallOfPage(const char* name, bool all_tenants, bool audited) {
  v1::Access access;
  access.set_role(v1::Access::VIEWER);
  access.set_all_tenants(all_tenants);
  access.set_audited(audited);
  return MethodAccess::OfDoor(name, std::move(access));
}

json Show(const Caller& caller) {
  return {{"principal", caller.principal},
          {"role", v1::Access::Role_Name(caller.role)},
          {"tenant", caller.tenant}};
}

// The key of a sign-in.
absl::StatusOr<std::string> ReadCredential(const HttpRequest& request) {
  absl::string_view header = request.Header("authorization");
  if (absl::ConsumePrefix(&header, "Bearer "))
    return std::string(absl::StripAsciiWhitespace(header));
  const json body = ParseBoundedJson(request.body);
  if (body.is_object() && body.contains("key") && body["key"].is_string())
    return std::string(absl::StripAsciiWhitespace(body["key"].get_ref<const std::string&>()));
  return InvalidField("key", "is required");
}

// The rows of all kinds as one JSON object, read kind by kind.
class PlatformReader : public std::enable_shared_from_this<PlatformReader> {
 public:
  PlatformReader(kv::KvStore& store, HttpResponder respond)
      : store_(store), respond_(std::move(respond)) {}

  void ReadNext() {
    if (step_ == 2 * std::size(kKinds)) return respond_(JsonAnswer(answer_));
    const char* const kind = kKinds[step_ / 2];
    const bool members = step_ % 2 == 1;
    ++step_;
    const std::string prefix = lease::KindPrefix(kind);
    kv::ScanRequest request{.cf = members ? kv::ColumnFamily::kMembers : kv::ColumnFamily::kLeases,
                            .begin = prefix,
                            .end = PrefixEnd(prefix),
                            .limit = kRowsMax};
    store_.Scan(std::move(request), [self = shared_from_this(), kind, members,
                                     prefix](absl::StatusOr<kv::ScanResult> rows) {
      if (!rows.ok()) return self->respond_(rest::ErrorAnswer(rows.status()));
      members ? self->AddMembers(kind, prefix, *rows) : self->AddLeases(kind, *rows);
      self->ReadNext();
    });
  }

 private:
  void AddLeases(const char* kind, const kv::ScanResult& rows) {
    json& leases = answer_["leases"][kind] = json::array();
    for (const kv::Entry& row : rows.entries) {
      const auto index = lease::LeaseIndexOf(kind, row.key);
      const auto lease = lease::DecodeLeaseValue(row.value);
      if (!index.has_value() || !lease.has_value()) continue;
      const bool held = !lease->owner.empty() && lease->end > rows.store_time;
      leases.push_back({{"index", *index},
                        {"epoch", std::to_string(lease->epoch)},
                        {"owner", held ? lease->owner : ""}});
    }
  }

  void AddMembers(const char* kind, const std::string& prefix, const kv::ScanResult& rows) {
    answer_["storeTime"] =
        absl::FormatTime(absl::RFC3339_full, rows.store_time, absl::UTCTimeZone());
    json& members = answer_["members"][kind] = json::array();
    for (const kv::Entry& row : rows.entries) {
      const auto end = lease::DecodeMemberValue(row.value);
      if (!end.has_value() || *end <= rows.store_time) continue;
      members.push_back(row.key.substr(prefix.size()));
    }
  }

  kv::KvStore& store_;
  const HttpResponder respond_;
  size_t step_ = 0;
  json answer_ = json::object();
};

}  // namespace

PageDoor::PageDoor(CallGate& gate, kv::KvStore& store, Runtime& runtime, Metrics& metrics,
                   std::vector<std::string> cors_origins)
    : gate_(gate),
      store_(store),
      clock_(runtime.clock()),
      metrics_(metrics, runtime.clock()),
      cors_origins_(std::move(cors_origins)),
      sign_in_(CallOfPage("SignIn", false, true)),
      get_session_(CallOfPage("GetSession", false, false)),
      get_platform_(CallOfPage("GetPlatform", true, false)) {}

void PageDoor::AddTo(HttpServer& http) {
  http.RouteSync("GET", "/", [](const HttpRequest&) {
    return HttpResponse{.status = 302, .headers = {{"Location", "/ui"}}};
  });
  http.RouteSync("GET", "/ui", ShowFile);
  http.RouteSync("GET", "/ui/", ShowFile);
  http.Route("", "/ui/session", [this](HttpRequest request, HttpResponder respond) {
    Session(std::move(request), respond);
  });
  http.Route("GET", "/ui/platform", [this](HttpRequest request, HttpResponder respond) {
    ShowPlatform(std::move(request), std::move(respond));
  });
}

PageDoor::Admitted PageDoor::Admit(const MethodAccess& method, const HttpRequest& request) {
  MethodMetrics& metrics = metrics_.Of("/ui/" + method.name());
  const absl::Duration began = metrics.Now();
  Admitted caller = gate_.Admit(method, {.authorization = request.Header("authorization"),
                                         .source = request.peer,
                                         .client_names = request.client_names});
  metrics.Answered(caller.status().code(), began);
  return caller;
}

void PageDoor::Session(HttpRequest request, const HttpResponder& respond) {
  if (request.method == "GET") {
    if (auto status = AdmitBrowser(cors_origins_, request); !status.ok())
      return respond(rest::ErrorAnswer(status));
    const auto caller = Admit(get_session_, request);
    return respond(caller.ok() ? JsonAnswer(Show(**caller)) : rest::ErrorAnswer(caller.status()));
  }
  if (IsCrossOrigin(request) || request.Header(kCsrfHeader).empty()) {
    return respond(rest::ErrorAnswer(
        MakeError(absl::StatusCode::kPermissionDenied, "CSRF_HEADER_MISSING",
                  absl::StrCat("only the page itself may call, with ", kCsrfHeader))));
  }
  if (request.method == "POST") return SignIn(request, respond);
  if (request.method != "DELETE")
    return respond({.status = 405, .headers = {{"Allow", "GET, POST, DELETE"}}});
  HttpResponse response = JsonAnswer(json::object());
  for (std::string& cookie : EndSessionCookies())
    response.headers.emplace_back("Set-Cookie", std::move(cookie));
  respond(std::move(response));
}

void PageDoor::SignIn(const HttpRequest& request, const HttpResponder& respond) {
  const auto credential = ReadCredential(request);
  if (!credential.ok()) return respond(rest::ErrorAnswer(credential.status()));
  if (!IsCookieValue(*credential)) {
    return respond(rest::ErrorAnswer(
        InvalidField("key", absl::StrCat("must be an API key or a token of at most ",
                                         kSessionCredentialBytesMax, " characters"))));
  }
  const auto caller = AdmitSignIn(request, *credential);
  if (!caller.ok()) return respond(rest::ErrorAnswer(caller.status()));
  HttpResponse response = JsonAnswer(Show(**caller));
  response.headers.emplace_back("Set-Cookie", BeginSessionCookie(request, *credential));
  respond(std::move(response));
}

PageDoor::Admitted PageDoor::AdmitSignIn(const HttpRequest& request,
                                         const std::string& credential) {
  const absl::Time now = absl::UnixEpoch() + clock_.Elapsed();
  if (const absl::Duration wait = failures_.WaitOf(request.peer, now);
      wait > absl::ZeroDuration()) {
    metrics_.Of("/ui/" + sign_in_.name()).Refused(absl::StatusCode::kResourceExhausted);
    return ResourceExhausted("TOO_MANY_FAILURES", "too many sign-ins from this address have failed",
                             wait);
  }
  HttpRequest head;
  head.headers = {{"authorization", "Bearer " + credential}};
  head.peer = request.peer;
  Admitted caller = Admit(sign_in_, head);
  if (caller.ok()) {
    gate_.OnAnswered(sign_in_, **caller, "", "", absl::OkStatus());
  } else if (absl::IsUnauthenticated(caller.status())) {
    failures_.NoteFailure(request.peer, now);
  }
  return caller;
}

void PageDoor::ShowPlatform(HttpRequest request, HttpResponder respond) {
  if (auto status = AdmitBrowser(cors_origins_, request); !status.ok())
    return respond(rest::ErrorAnswer(status));
  const auto caller = Admit(get_platform_, request);
  if (!caller.ok()) return respond(rest::ErrorAnswer(caller.status()));
  std::make_shared<PlatformReader>(store_, std::move(respond))->ReadNext();
}

}  // namespace escapement::master
