#include "services/handler/delivery/email/email_flags.h"

#include <algorithm>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/ascii.h"
#include "services/handler/delivery/email/email_transport.h"

ABSL_FLAG(int, email_connections_per_server, 4, "concurrent SMTP connections to one server");
ABSL_FLAG(std::string, email_ehlo_name, "",
          "the host name by which the platform presents itself to SMTP servers (EHLO); empty: the "
          "machine's name");

namespace escapement::handler {
namespace {

// Characters of host names and of address literals such as [192.0.2.1].
bool IsEhloCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == ':' ||
         c == '[' || c == ']';
}

}  // namespace

void ValidateEmailFlags(std::vector<std::string>& errors) {
  const int connections = absl::GetFlag(FLAGS_email_connections_per_server);
  if (connections < 1 || connections > 64)
    errors.push_back("--email_connections_per_server: must be from 1 to 64");
  const std::string name = absl::GetFlag(FLAGS_email_ehlo_name);
  if (name.size() > 255 || !std::all_of(name.begin(), name.end(), IsEhloCharacter))
    errors.push_back("--email_ehlo_name: must be a host name");
}

std::unique_ptr<DeliveryTransport> NewEmailTransportFromFlags(
    std::shared_ptr<const AddressRule> addresses) {
  EmailTransport::Options options;
  options.addresses = std::move(addresses);
  options.connections_per_server_max = absl::GetFlag(FLAGS_email_connections_per_server);
  options.ehlo_name = absl::GetFlag(FLAGS_email_ehlo_name);
  return std::make_unique<EmailTransport>(options);
}

}  // namespace escapement::handler
