// HostileValues: tame or hostile values for a field, by its name and type. A tame value is one that
// a user would send. A hostile value is at a bound, beyond it, or of a kind that the field does not
// expect.
//
// Threads: one at a time.

#ifndef TESTS_API_FUZZ_HOSTILE_VALUES_H_
#define TESTS_API_FUZZ_HOSTILE_VALUES_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace escapement::api_fuzz {

class HostileValues {
 public:
  // `uris`: by name of the message that holds the field uri, e.g. HttpTarget.
  HostileValues(uint64_t seed, std::vector<std::string> http_uris,
                std::vector<std::string> grpc_uris)
      : random_(seed), http_uris_(std::move(http_uris)), grpc_uris_(std::move(grpc_uris)) {}

  uint64_t Below(uint64_t bound) { return random_() % bound; }
  bool Chance(uint64_t percent) { return Below(100) < percent; }
  template <typename T>
  const T& OneOf(const std::vector<T>& values) {
    return values[Below(values.size())];
  }

  // An id that is new in this run, or one of a few that are used again.
  std::string Id();
  std::string Text(const google::protobuf::FieldDescriptor& field, bool hostile);
  std::string Bytes(bool hostile);
  int64_t Integer(const google::protobuf::FieldDescriptor& field, bool hostile);
  double Real(bool hostile);
  // Sets a google.protobuf.Timestamp or Duration.
  void Time(const google::protobuf::FieldDescriptor& field, bool hostile,
            google::protobuf::Message* value);
  // Cuts, changes or lengthens an encoded message.
  std::string Damage(std::string bytes);
  std::string HostileText();

 private:
  std::mt19937_64 random_;
  const std::vector<std::string> http_uris_;
  const std::vector<std::string> grpc_uris_;
  uint64_t ids_ = 0;
};

}  // namespace escapement::api_fuzz

#endif  // TESTS_API_FUZZ_HOSTILE_VALUES_H_
