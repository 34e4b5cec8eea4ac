#include "common/tls/certificate_watch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/log.h"

namespace escapement {

namespace {

// The last sixth of the lifetime is warned of.
constexpr int kLifetimeParts = 6;
constexpr absl::Duration kWarnBeforeMax = absl::Hours(14 * 24);
constexpr absl::Duration kWarnEvery = absl::Hours(24);

}  // namespace

CertificateWatch::CertificateWatch(Metrics& metrics, std::vector<std::shared_ptr<TlsFiles>> sets)
    : CertificateWatch(metrics, std::move(sets), absl::Now) {}

CertificateWatch::CertificateWatch(Metrics& metrics, std::vector<std::shared_ptr<TlsFiles>> sets,
                                   WallClock wall)
    : sets_(std::move(sets)), wall_(std::move(wall)) {
  for (const auto& set : sets_) {
    for (const std::string& path : {set->paths().cert, set->paths().ca, set->paths().service_ca}) {
      if (path.empty()) continue;
      const MetricLabels labels = {{"file", path}};
      files_[path] = {
          .expiry = metrics.GetGauge("escapement_tls_certificate_expiry_seconds",
                                     "When the certificate file in force ends, in seconds since "
                                     "1970. A file of authorities ends with the last of them.",
                                     labels),
          .lifetime = metrics.GetGauge("escapement_tls_certificate_lifetime_seconds",
                                       "From the begin to the end of the file in force.", labels),
          .refused = metrics.GetGauge("escapement_tls_certificate_refused",
                                      "1 while the file on disk cannot be used or has expired, so "
                                      "that the former one stays in force.",
                                      labels)};
    }
  }
  Step();
}

void CertificateWatch::Step() {
  struct Seen {
    Validity validity;
    bool refused = false;
  };
  std::map<std::string, Seen> seen;
  for (const auto& set : sets_) {
    const auto loaded = set->Current();
    const std::string refusal = set->Refusal();
    const TlsPaths& paths = set->paths();
    for (const auto& [path, validity] :
         {std::pair(&paths.cert, &loaded->cert), std::pair(&paths.ca, &loaded->ca),
          std::pair(&paths.service_ca, &loaded->service_ca)}) {
      if (path->empty()) continue;
      // A key without its certificate, or the reverse, is a fault of the pair.
      const bool refused =
          absl::StartsWith(refusal, absl::StrCat(*path, ":")) ||
          (path == &paths.cert && absl::StartsWith(refusal, absl::StrCat(paths.key, ":")));
      Seen& file = seen[*path];
      file.refused |= refused;
      if (validity->ends < file.validity.ends) file.validity = *validity;
    }
  }
  for (const auto& [path, file] : seen) Note(path, file.validity, file.refused);
}

void CertificateWatch::Note(const std::string& path, const Validity& validity, bool refused) {
  File& file = files_.at(path);
  const absl::Duration lifetime = validity.ends - validity.begins;
  file.expiry->Set(absl::ToDoubleSeconds(validity.ends - absl::UnixEpoch()));
  file.lifetime->Set(absl::ToDoubleSeconds(lifetime));
  file.refused->Set(refused ? 1 : 0);
  const absl::Time now = wall_();
  if (now < validity.ends - std::min(lifetime / kLifetimeParts, kWarnBeforeMax)) {
    file.warn_again = absl::InfinitePast();
    return;
  }
  if (now < file.warn_again) return;
  const bool expired = validity.ends <= now;
  file.warn_again = now + kWarnEvery;
  if (!expired) file.warn_again = std::min(file.warn_again, validity.ends);
  Log(LogLevel::kWarning, "tls",
      expired ? "a certificate file has expired: connections fail until it is replaced"
              : "a certificate file expires soon",
      {{"file", path},
       {"expires", absl::FormatTime(absl::RFC3339_sec, validity.ends, absl::UTCTimeZone())}});
}

}  // namespace escapement
