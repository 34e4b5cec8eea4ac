// openapi_gen <descriptors> <examples> <out> <service>... [<streaming RPC>=<message of a line>]...:
// writes the OpenAPI document of services. The examples are those of OpenApiInfo.

#include <google/protobuf/descriptor.pb.h>

#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "common/base/bounded_json.h"
#include "common/rest/openapi/openapi_document.h"

namespace {

constexpr const char* kDescription =
    "The API of Escapement as REST/JSON. The same calls exist as gRPC (package escapement.v1).\n\n"
    "Descriptions name fields as the protos do: `page_size` is `pageSize` in JSON. Requests may "
    "have either spelling; unknown fields and fields that are given twice are refused. Answers "
    "have "
    "numbers, booleans, texts and lists even if they are 0, false or empty; messages and enums "
    "without a value are left out. 64-bit integers are strings in answers, and strings or numbers "
    "in requests. "
    "Times are RFC 3339 instants with at most 9 digits after the second. A body may be packed by "
    "gzip. It has at most 12 MiB. The header Request-Timeout limits a call to that many seconds.";

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::cerr << "usage: openapi_gen <descriptors> <examples> <out> <service>... "
                 "[<RPC>=<message>]...\n";
    return 2;
  }
  std::ifstream in(argv[1], std::ios::binary);
  google::protobuf::FileDescriptorSet files;
  if (!in || !files.ParseFromIstream(&in)) {
    std::cerr << "openapi_gen: cannot read " << argv[1] << "\n";
    return 1;
  }
  std::ifstream file(argv[2], std::ios::binary);
  const std::string examples{std::istreambuf_iterator<char>(file), {}};
  escapement::rest::OpenApiInfo info = {.title = "Escapement",
                                        .version = "v1",
                                        .description = kDescription,
                                        .examples = escapement::ParseBoundedJson(examples)};
  std::vector<std::string> services;
  for (int i = 4; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t equals = argument.find('=');
    if (equals == std::string::npos) {
      services.push_back(argument);
    } else {
      info.line_messages.emplace(argument.substr(0, equals), argument.substr(equals + 1));
    }
  }
  const auto document = escapement::rest::OpenApiDocument(files, services, info);
  if (!document.ok()) {
    std::cerr << "openapi_gen: " << document.status() << "\n";
    return 1;
  }
  std::ofstream out(argv[3], std::ios::binary);
  out << *document << "\n";
  out.close();
  if (!out) {
    std::cerr << "openapi_gen: cannot write " << argv[3] << "\n";
    return 1;
  }
  return 0;
}
