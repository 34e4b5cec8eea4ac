// CallGate decides which calls a server admits.
//
// Caller: who makes a call, and what it may do.

#ifndef COMMON_RPC_CALL_GATE_H_
#define COMMON_RPC_CALL_GATE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/rpc/method_access.h"
#include "escapement/v1/access.pb.h"
#include "google/protobuf/message.h"

namespace escapement {

struct Caller {
  std::string principal;  // as AuditEntry.principal
  v1::Access::Role role = v1::Access::ROLE_UNSPECIFIED;
  std::string tenant = {};  // id of the caller's one tenant; empty: all tenants
  std::string source = {};  // ip:port; empty: unknown
  // From this moment on the credential is not valid, by the store's time. API keys leave it: their
  // record says it (key_directory.h).
  absl::Time expire_time = absl::InfiniteFuture();
  // When a token (JWT) was issued; InfinitePast: it does not say. Other credentials leave it.
  absl::Time issue_time = absl::InfiniteFuture();
  // The call's `traceparent` (W3C Trace Context) if it has one that is well-formed; else empty.
  std::string trace_parent = {};

  // True if the caller may know of this tenant. "-" stands for all tenants.
  bool MaySee(const std::string& tenant_id) const { return tenant.empty() || tenant == tenant_id; }
};

// The caller of a server that asks for no credentials: it may do everything.
inline const std::shared_ptr<const Caller>& AnonymousCaller() {
  static const auto* const caller = new std::shared_ptr<const Caller>(
      std::make_shared<Caller>(Caller{"anonymous", v1::Access::SERVICE}));
  return *caller;
}

// CallGate: decides for every call of a server whether it may go on. The server asks it twice:
// before the request is read (who calls, and in which role), and when the request has been read
// (whose resource it names). Nothing else in a process checks credentials.
//
// Threads: any; calls must not block.

// The parts of a call that are known before its request is read.
struct CallHead {
  absl::string_view authorization = {};  // the header's value, or ""; "?" if there are several
  std::string source = {};               // ip:port of the client
  // Subject alternative names of the client's verified certificate; empty without one.
  std::vector<std::string> client_names = {};
};

class CallGate {
 public:
  virtual ~CallGate() = default;

  // UNAUTHENTICATED: the credentials are missing or wrong. PERMISSION_DENIED: the role is too low.
  virtual absl::StatusOr<std::shared_ptr<const Caller>> Admit(const MethodAccess& method,
                                                              const CallHead& head) = 0;
  // Called for each message of a stream. Errors of this call are answers of the RPC. NOT_FOUND for
  // a resource of another tenant. UNAUTHENTICATED if the credential has ended since Admit: a stream
  // must end.
  // `resource` is MethodAccess::ResourceOf(request).
  virtual absl::Status CheckRequest(const MethodAccess& method, const Caller& caller,
                                    const std::string& resource,
                                    const google::protobuf::Message& request) = 0;
  // Called for each admitted call of an audited method when it is answered. The strings are empty
  // if the request could not be read.
  virtual void OnAnswered(const MethodAccess& method, const Caller& caller,
                          const std::string& resource, const std::string& request_id,
                          const absl::Status& status) = 0;
};

// Admits everybody as AnonymousCaller().
class OpenGate final : public CallGate {
 public:
  absl::StatusOr<std::shared_ptr<const Caller>> Admit(const MethodAccess&,
                                                      const CallHead&) override {
    return AnonymousCaller();
  }
  absl::Status CheckRequest(const MethodAccess&, const Caller&, const std::string&,
                            const google::protobuf::Message&) override {
    return absl::OkStatus();
  }
  void OnAnswered(const MethodAccess&, const Caller&, const std::string&, const std::string&,
                  const absl::Status&) override {}
};

}  // namespace escapement

#endif  // COMMON_RPC_CALL_GATE_H_
