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

// `renew_after`: of the caller's session.
json Show(const Caller& caller, std::optional<absl::Duration> renew_after = std::nullopt) {
  json shown = {{"principal", caller.principal},
                {"role", v1::Access::Role_Name(caller.role)},
                {"tenant", caller.tenant}};
  if (renew_after.has_value()) shown["renewAfter"] = absl::ToInt64Seconds(*renew_after);
  return shown;
}

HttpResponse Redirect(std::string location) {
  HttpResponse response{.status = 302, .headers = rest::AnswerHeaders()};
  response.headers.emplace_back("Location", std::move(location));
  // The address that the issuer redirects to has the code.
  response.headers.emplace_back("Referrer-Policy", "no-referrer");
  return response;
}

void AddCookies(HttpResponse& response, std::vector<std::string> cookies) {
  for (std::string& cookie : cookies)
    response.headers.emplace_back("Set-Cookie", std::move(cookie));
}

// The page has the words.
absl::string_view WhySignInFailed(const absl::Status& status) {
  const std::string reason = ErrorReason(status);
  if (reason == "SIGN_IN_STATE") return "state";
  if (reason == "SIGN_IN_REFUSED") return "refused";
  if (absl::IsPermissionDenied(status)) return "no_rights";
  if (absl::IsUnauthenticated(status)) return "invalid";
  return absl::IsResourceExhausted(status) ? "wait" : "unavailable";
}

HttpResponse FailedSignIn(std::string view, const absl::Status& status) {
  absl::StrAppend(&view, view.find('?') == view.npos ? "?" : "&",
                  "sign_in=", WhySignInFailed(status));
  return Redirect(std::move(view));
}

absl::Status CheckThePage(const HttpRequest& request) {
  if (!IsCrossOrigin(request) && !request.Header(kCsrfHeader).empty()) return absl::OkStatus();
  return MakeError(absl::StatusCode::kPermissionDenied, "CSRF_HEADER_MISSING",
                   absl::StrCat("only the page itself may call, with ", kCsrfHeader));
}

// The head of a request, for the gate, whose client shows this credential.
HttpRequest WithCredential(const HttpRequest& request, const std::string& credential) {
  HttpRequest head;
  head.headers = {{"authorization", "Bearer " + credential}};
  head.peer = request.peer;
  return head;
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

PageDoor::PageDoor(CallGate& gate, auth::OidcSignIn* sign_in, kv::KvStore& store, Runtime& runtime,
                   Metrics& metrics, std::vector<std::string> cors_origins)
    : gate_(gate),
      sign_in_flow_(sign_in),
      store_(store),
      clock_(runtime.clock()),
      metrics_(metrics, runtime.clock()),
      cors_origins_(std::move(cors_origins)),
      sign_in_(CallOfPage("SignIn", false, true)),
      get_session_(CallOfPage("GetSession", false, false)),
      get_platform_(CallOfPage("GetPlatform", true, false)) {}

PageDoor::~PageDoor() {
  if (sign_in_flow_ != nullptr) sign_in_flow_->Stop();
}

void PageDoor::AddTo(HttpServer& http) {
  http.RouteSync("GET", "/", [](const HttpRequest&) {
    return HttpResponse{.status = 302, .headers = {{"Location", "/ui"}}};
  });
  http.RouteSync("GET", "/ui", ShowFile);
  http.RouteSync("GET", "/ui/", ShowFile);
  http.Route("", "/ui/session", [this](HttpRequest request, HttpResponder respond) {
    Session(std::move(request), respond);
  });
  http.RouteSync("GET", "/ui/issuers", [this](const HttpRequest&) {
    json issuers = json::array();
    if (sign_in_flow_ != nullptr) {
      for (const auto& [issuer, name] : sign_in_flow_->Choices())
        issuers.push_back({{"issuer", issuer}, {"name", name}});
    }
    return JsonAnswer({{"issuers", std::move(issuers)}});
  });
  if (sign_in_flow_ != nullptr) {
    http.Route("POST", "/ui/session/renewal", [this](HttpRequest request, HttpResponder respond) {
      RenewSession(std::move(request), respond);
    });
    http.Route("GET", "/ui/sign-in", [this](HttpRequest request, HttpResponder respond) {
      BeginSignIn(request, std::move(respond));
    });
    http.Route("GET", auth::kSignedInPath, [this](HttpRequest request, HttpResponder respond) {
      FinishSignIn(std::move(request), std::move(respond));
    });
  }
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
    if (!caller.ok()) return respond(rest::ErrorAnswer(caller.status()));
    std::optional<absl::Duration> renew_after;
    if (sign_in_flow_ != nullptr)
      renew_after = sign_in_flow_->RenewAfter(SessionCredential(request).value_or(""));
    return respond(JsonAnswer(Show(**caller, renew_after)));
  }
  if (auto status = CheckThePage(request); !status.ok()) return respond(rest::ErrorAnswer(status));
  if (request.method == "POST") return SignIn(request, respond);
  if (request.method == "DELETE") return SignOut(request, respond);
  respond({.status = 405, .headers = {{"Allow", "GET, POST, DELETE"}}});
}

void PageDoor::SignOut(const HttpRequest& request, const HttpResponder& respond) {
  const auto answer = [respond](const std::string& issuers_end) {
    HttpResponse response =
        JsonAnswer(issuers_end.empty() ? json::object() : json{{"next", issuers_end}});
    AddCookies(response, EndSessionCookies());
    respond(std::move(response));
  };
  const std::optional<std::string> session = SessionCredential(request);
  if (sign_in_flow_ == nullptr || !session.has_value()) return answer("");
  sign_in_flow_->SignOut(*session, answer);
}

void PageDoor::RenewSession(HttpRequest request, const HttpResponder& respond) {
  if (auto status = CheckThePage(request); !status.ok()) return respond(rest::ErrorAnswer(status));
  const std::string session = SessionCredential(request).value_or("");
  sign_in_flow_->Renew(
      session, [this, request = std::move(request), respond](absl::StatusOr<std::string> renewed) {
        if (!renewed.ok()) return respond(rest::ErrorAnswer(renewed.status()));
        const auto caller = Admit(get_session_, WithCredential(request, *renewed));
        if (!caller.ok()) return respond(rest::ErrorAnswer(caller.status()));
        HttpResponse response = JsonAnswer(Show(**caller, sign_in_flow_->RenewAfter(*renewed)));
        AddCookies(response, {BeginSessionCookie(request, *renewed)});
        respond(std::move(response));
      });
}

void PageDoor::BeginSignIn(const HttpRequest& request, HttpResponder respond) {
  const std::string view = ReturnPath(QueryValue(request.query, "return"));
  // A link of another site must not change who is signed in here.
  if (IsCrossOrigin(request)) return respond(Redirect(view));
  sign_in_flow_->Begin(
      QueryValue(request.query, "issuer"), view,
      [request, view, respond = std::move(respond)](absl::StatusOr<auth::OidcSignIn::Begun> begun) {
        if (!begun.ok()) return respond(FailedSignIn(view, begun.status()));
        HttpResponse response = Redirect(begun->location);
        AddCookies(response, {BeginSignInCookie(request, begun->cookie)});
        respond(std::move(response));
      });
}

void PageDoor::FinishSignIn(HttpRequest request, HttpResponder respond) {
  const auto answer = [this, request,
                       respond = std::move(respond)](auth::OidcSignIn::Finished finished) {
    respond(Finished(request, std::move(finished)));
  };
  if (const absl::Status status = CheckFailures(request); !status.ok()) return answer({status, ""});
  sign_in_flow_->Finish(SignInCookie(request).value_or(""),
                        {.state = QueryValue(request.query, "state"),
                         .issuer = QueryValue(request.query, "iss"),
                         .error = QueryValue(request.query, "error"),
                         .code = QueryValue(request.query, "code")},
                        answer);
}

HttpResponse PageDoor::Finished(const HttpRequest& request, auth::OidcSignIn::Finished finished) {
  const bool authentic = !finished.return_to.empty();
  absl::Status status = finished.session.status();
  if (!status.ok() && authentic) {
    // An answer that belongs to no sign-in is not worth an entry: anybody can send it.
    const Caller unknown{.principal = "unknown", .source = request.peer};
    gate_.OnAnswered(sign_in_, unknown, "", "", status);
    // An issuer that says no, or a person who turns back, is no guess.
    const bool guess =
        !QueryValue(request.query, "code").empty() && QueryValue(request.query, "error").empty();
    if (absl::IsUnauthenticated(status) && guess) NoteFailure(request);
  } else if (status.ok()) {
    status = AdmitSignIn(request, *finished.session).status();
  }
  const std::string view = authentic ? finished.return_to : ReturnPath("");
  HttpResponse response = status.ok() ? Redirect(view) : FailedSignIn(view, status);
  // A link to here that somebody else made does not end the sign-in of this browser.
  if (authentic) AddCookies(response, EndSignInCookies());
  if (status.ok()) AddCookies(response, {BeginSessionCookie(request, *finished.session)});
  return response;
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
  if (absl::Status status = CheckFailures(request); !status.ok()) return status;
  Admitted caller = Admit(sign_in_, WithCredential(request, credential));
  if (caller.ok()) {
    gate_.OnAnswered(sign_in_, **caller, "", "", absl::OkStatus());
  } else if (absl::IsUnauthenticated(caller.status())) {
    NoteFailure(request);
  }
  return caller;
}

absl::Status PageDoor::CheckFailures(const HttpRequest& request) {
  absl::MutexLock lock(&mutex_);
  const absl::Duration wait = failures_.WaitOf(request.peer, absl::UnixEpoch() + clock_.Elapsed());
  if (wait <= absl::ZeroDuration()) return absl::OkStatus();
  metrics_.Of("/ui/" + sign_in_.name()).Refused(absl::StatusCode::kResourceExhausted);
  return ResourceExhausted("TOO_MANY_FAILURES", "too many sign-ins from this address have failed",
                           wait);
}

void PageDoor::NoteFailure(const HttpRequest& request) {
  absl::MutexLock lock(&mutex_);
  failures_.NoteFailure(request.peer, absl::UnixEpoch() + clock_.Elapsed());
}

void PageDoor::ShowPlatform(HttpRequest request, HttpResponder respond) {
  if (auto status = AdmitBrowser(cors_origins_, request); !status.ok())
    return respond(rest::ErrorAnswer(status));
  const auto caller = Admit(get_platform_, request);
  if (!caller.ok()) return respond(rest::ErrorAnswer(caller.status()));
  std::make_shared<PlatformReader>(store_, std::move(respond))->ReadNext();
}

}  // namespace escapement::master
