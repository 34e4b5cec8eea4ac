#include "tests/api_fuzz/bed.h"

#include "absl/strings/str_cat.h"

namespace escapement::api_fuzz {

absl::StatusOr<std::unique_ptr<Bed>> Bed::Start(const std::string& bin, const std::string& folder) {
  std::unique_ptr<Bed> bed(new Bed);
  auto http = fixtures::HttpReceiver::Start({.record = false}, &bed->receipts_);
  if (!http.ok()) return http.status();
  bed->http_ = *std::move(http);
  for (auto [behaviour, receiver] :
       {std::pair("", &bed->grpc_), {"/status/410", &bed->rejecting_}}) {
    auto started = fixtures::GrpcReceiver::Start(
        {.behaviour = behaviour, .failure_message = "\x1b[2J\xc2\x9b\x7f\n", .record = false},
        &bed->receipts_);
    if (!started.ok()) return started.status();
    *receiver = *std::move(started);
  }
  bed->platform_ = std::make_unique<integration::Platform>(
      integration::Platform::Options{.bin = bin, .folder = folder});
  if (auto status = bed->platform_->Start({"standalone"}); !status.ok()) return status;
  auto api = WireApi::Connect(bed->platform_->grpc_address("standalone"), "escapement.v1");
  if (!api.ok()) return api.status();
  bed->api_ = *std::move(api);
  return bed;
}

FuzzRun::Options Bed::OptionsFor(uint64_t seed, uint64_t calls) {
  return {.seed = seed,
          .calls = calls,
          .http_uris = {http_->origin() + "/a", http_->origin() + "/status/503",
                        http_->origin() + "/status/410", "http://127.0.0.1:1/"},
          .grpc_uris = {grpc_->target(), rejecting_->target(), "127.0.0.1:1"},
          .alive = [this] { return platform_->Runs("standalone"); }};
}

std::string Bed::End() {
  if (!platform_->Runs("standalone")) return "the process ended by itself";
  const auto code = platform_->Terminate("standalone", absl::Seconds(30));
  if (!code.ok()) return absl::StrCat("the process does not end: ", code.status().ToString());
  return *code == 0 ? "" : absl::StrCat("the process ended with ", *code);
}

}  // namespace escapement::api_fuzz
