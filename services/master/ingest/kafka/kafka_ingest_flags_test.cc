#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/reflection.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/master/ingest/kafka/kafka_ingest.h"

namespace escapement::master {
namespace kafka_ingest_flags_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class KafkaIngestFlagsTest : public ::testing::Test {
 protected:
  // Sets --kafka_ingest_<name>.
  static void Set(absl::string_view name, absl::string_view value) {
    std::string error;
    absl::CommandLineFlag* flag = absl::FindCommandLineFlag(absl::StrCat("kafka_ingest_", name));
    ASSERT_NE(flag, nullptr) << name;
    ASSERT_TRUE(flag->ParseFrom(value, &error)) << error;
  }
  static void SetMinimum() {
    Set("brokers", "kafka:9092");
    Set("topics", "orders");
    Set("error_topic", "errors");
  }
  static std::vector<std::string> Errors() {
    std::vector<std::string> errors;
    ValidateKafkaIngestFlags(errors);
    return errors;
  }
  absl::FlagSaver saver_;
};

TEST_F(KafkaIngestFlagsTest, IngestionIsOffByDefault) {
  EXPECT_THAT(Errors(), IsEmpty());
  const auto options = KafkaIngestOptionsFromFlags();
  ASSERT_TRUE(options.ok());
  EXPECT_FALSE(options->has_value());
}

TEST_F(KafkaIngestFlagsTest, MinimumAllowsTheDefaultTenantOnly) {
  SetMinimum();
  EXPECT_THAT(Errors(), IsEmpty());
  const auto options = KafkaIngestOptionsFromFlags();
  ASSERT_TRUE(options.ok() && options->has_value());
  EXPECT_EQ(*(*options)->topics.TenantOf("orders", ""), "default");
  EXPECT_FALSE((*options)->topics.TenantOf("orders", "team-a").ok());
  EXPECT_FALSE((*options)->access.tls.has_value());
  EXPECT_EQ((*options)->batch_max, 1000u);
  EXPECT_EQ((*options)->in_flight_max, 8000u);
}

TEST_F(KafkaIngestFlagsTest, EachBadValueIsNamed) {
  const std::pair<const char*, const char*> bad[] = {
      {"brokers", "SSL://kafka:9092"},
      {"topics", ""},
      {"topics", "orders=No"},
      {"topics", "errors"},
      {"tenant", "-"},
      {"group", ""},
      {"group", "two words"},
      {"error_topic", ""},
      {"error_topic", "a/b"},
      {"security_protocol", "tls"},
      {"security_protocol", "sasl_ssl"},
      {"sasl_mechanism", "PLAIN"},
      {"ca_file", "x"},
      {"cert_file", "x"},
      {"key_file", "x"},
      {"max_batch", "0"},
      {"max_batch", "5001"},
  };
  for (const auto& [name, value] : bad) {
    absl::FlagSaver saver;
    SetMinimum();
    Set(name, value);
    EXPECT_THAT(Errors(), Not(IsEmpty())) << name << "=" << value;
  }
  Set("topics", "orders");
  EXPECT_THAT(Errors(), ElementsAre(HasSubstr("needs --kafka_ingest_brokers")));
}

TEST_F(KafkaIngestFlagsTest, SecretsComeFromFiles) {
  const std::string folder = ::testing::TempDir();
  std::ofstream(folder + "/password") << "hunter2\r\n";
  std::ofstream(folder + "/ca") << "CA";
  SetMinimum();
  Set("security_protocol", "sasl_ssl");
  Set("sasl_mechanism", "PLAIN");
  Set("sasl_user", "robot");
  Set("sasl_password_file", folder + "/password");
  Set("ca_file", folder + "/ca");
  EXPECT_THAT(Errors(), IsEmpty());
  const auto options = KafkaIngestOptionsFromFlags();
  ASSERT_TRUE(options.ok() && options->has_value()) << options.status();
  EXPECT_EQ((*options)->access.sasl_password, "hunter2");
  EXPECT_EQ((*options)->access.sasl_username, "robot");
  EXPECT_EQ((*options)->access.tls->ca_certificates, "CA");
  Set("ca_file", folder + "/missing");
  const auto missing = KafkaIngestOptionsFromFlags();
  EXPECT_THAT(missing.status().ToString(), HasSubstr("missing"));
  EXPECT_THAT(missing.status().ToString(), Not(HasSubstr("hunter2")));
  EXPECT_THAT(Errors(), ElementsAre(HasSubstr("/missing")));
  // The password would be readable on the way.
  Set("security_protocol", "sasl_plaintext");
  Set("ca_file", "");
  EXPECT_THAT(Errors(), ElementsAre(HasSubstr("PLAIN needs TLS")));
}

}  // namespace kafka_ingest_flags_test
}  // namespace escapement::master
