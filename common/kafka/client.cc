#include "common/kafka/client.h"

#include <sys/mman.h>
#include <unistd.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/printable_text.h"

namespace escapement {
namespace {

// A file that exists only in memory, for as long as this object does.
class MemoryFile {
 public:
  explicit MemoryFile(absl::string_view text) : fd_(memfd_create("certificates", MFD_CLOEXEC)) {
    while (fd_ >= 0 && !text.empty()) {
      const ssize_t written = write(fd_, text.data(), text.size());
      if (written <= 0) return;
      text.remove_prefix(static_cast<size_t>(written));
    }
  }
  ~MemoryFile() {
    if (fd_ >= 0) close(fd_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  // Opens in this process only.
  std::string path() const { return absl::StrCat("/proc/self/fd/", fd_); }

 private:
  const int fd_;
};

void DropLog(const rd_kafka_t*, int, const char*, const char*) {}

}  // namespace

absl::StatusOr<rd_kafka_t*> NewKafkaClient(rd_kafka_type_t type,
                                           std::vector<KafkaProperty> properties,
                                           const std::string& password,
                                           absl::FunctionRef<void(rd_kafka_conf_t*)> prepare) {
  rd_kafka_conf_t* conf = rd_kafka_conf_new();
  rd_kafka_conf_set_log_cb(conf, &DropLog);
  prepare(conf);
  char error[kKafkaErrorTextMax] = {};
  std::unique_ptr<MemoryFile> chain;
  for (KafkaProperty& property : properties) {
    if (property.name == "ssl.certificate.pem") {
      // librdkafka would take only the first certificate of a text. It reads a file's whole chain.
      chain = std::make_unique<MemoryFile>(property.value);
      property = {"ssl.certificate.location", chain->path()};
    }
    if (rd_kafka_conf_set(conf, property.name.c_str(), property.value.c_str(), error,
                          sizeof(error)) != RD_KAFKA_CONF_OK) {
      rd_kafka_conf_destroy(conf);
      // librdkafka's text has the value, which may be a secret.
      return absl::InvalidArgumentError(absl::StrCat("librdkafka refuses ", property.name));
    }
  }
  rd_kafka_t* client = rd_kafka_new(type, conf, error, sizeof(error));
  if (client != nullptr) return client;
  const rd_kafka_resp_err_t code = rd_kafka_last_error();
  rd_kafka_conf_destroy(conf);
  const std::string text = KafkaErrorText(error, password);
  return code == RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE ? absl::ResourceExhaustedError(text)
                                                      : absl::InvalidArgumentError(text);
}

std::string KafkaErrorText(absl::string_view text, const std::string& password) {
  if (password.empty()) return CleanText(text, kKafkaErrorTextMax);
  return CleanText(absl::StrReplaceAll(text, {{password, "***"}}), kKafkaErrorTextMax);
}

}  // namespace escapement
