#include "common/tls/client_names.h"

#include <arpa/inet.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace escapement {
namespace {

void AppendText(absl::string_view kind, const ASN1_IA5STRING* text,
                std::vector<std::string>& names) {
  const absl::string_view value(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                                static_cast<size_t>(ASN1_STRING_length(text)));
  // A NUL in the middle would let a name begin like another one.
  const bool printable = std::all_of(value.begin(), value.end(),
                                     [](unsigned char c) { return absl::ascii_isgraph(c); });
  if (printable && !value.empty()) names.push_back(absl::StrCat(kind, value));
}

void AppendAddress(const ASN1_OCTET_STRING* address, std::vector<std::string>& names) {
  const int bytes = ASN1_STRING_length(address);
  if (bytes != 4 && bytes != 16) return;
  char text[INET6_ADDRSTRLEN];
  if (inet_ntop(bytes == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(address), text,
                sizeof(text)) != nullptr)
    names.push_back(absl::StrCat("IP:", text));
}

}  // namespace

std::vector<std::string> SubjectAlternativeNames(const x509_st& certificate) {
  const std::unique_ptr<GENERAL_NAMES, void (*)(GENERAL_NAMES*)> all(
      static_cast<GENERAL_NAMES*>(
          X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr)),
      GENERAL_NAMES_free);
  std::vector<std::string> names;
  for (int i = 0; i < sk_GENERAL_NAME_num(all.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(all.get(), i);
    if (name->type == GEN_DNS) AppendText("DNS:", name->d.dNSName, names);
    if (name->type == GEN_URI) AppendText("URI:", name->d.uniformResourceIdentifier, names);
    if (name->type == GEN_EMAIL) AppendText("email:", name->d.rfc822Name, names);
    if (name->type == GEN_IPADD) AppendAddress(name->d.iPAddress, names);
  }
  return names;
}

std::vector<std::string> VerifiedClientNames(const ssl_st& connection) {
  const X509* certificate = SSL_get0_peer_certificate(&connection);
  if (certificate == nullptr || SSL_get_verify_result(&connection) != X509_V_OK) return {};
  return SubjectAlternativeNames(*certificate);
}

}  // namespace escapement
