// CertificateWatch: what /metrics and the log say of the certificate files of a process.
//
//   escapement_tls_certificate_expiry_seconds    when the file in force ends, in seconds since 1970
//   escapement_tls_certificate_lifetime_seconds  from its begin to its end
//   escapement_tls_certificate_refused           1 while the file on disk is not in force
//
// The label `file` is the path. A warning is logged when a sixth of the lifetime is left, at most
// 14 days, then each day, and at the end. So certificates that live for hours are not always warned
// of.
//
// Threads: one at a time.

#ifndef COMMON_TLS_CERTIFICATE_WATCH_H_
#define COMMON_TLS_CERTIFICATE_WATCH_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/metrics/metrics.h"
#include "common/tls/tls_files.h"

namespace escapement {

class CertificateWatch {
 public:
  using WallClock = std::function<absl::Time()>;

  // `metrics` must outlive it. Two sets may have the same file.
  CertificateWatch(Metrics& metrics, std::vector<std::shared_ptr<TlsFiles>> sets);
  CertificateWatch(Metrics& metrics, std::vector<std::shared_ptr<TlsFiles>> sets, WallClock wall);

  // Reads the sets again, sets the metrics, and warns. Call it each second.
  void Step();

 private:
  struct File {
    Gauge* expiry;
    Gauge* lifetime;
    Gauge* refused;
    absl::Time warn_again = absl::InfinitePast();
  };
  void Note(const std::string& path, const Validity& validity, bool refused);

  const std::vector<std::shared_ptr<TlsFiles>> sets_;
  const WallClock wall_;
  std::map<std::string, File> files_;
};

}  // namespace escapement

#endif  // COMMON_TLS_CERTIFICATE_WATCH_H_
