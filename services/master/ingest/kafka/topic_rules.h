// TopicRules: the topics that are ingested, and the tenants that each topic may write to.
//
// A text names them: "TOPIC=TENANT|TENANT...", separated by commas. The first tenant of a topic
// gets the messages that name none. A topic without tenants may write to the default tenant only.
// "*" stands for every tenant and must be written out: "orders=*" needs a tenant in each message,
// "orders=team-a|*" has a tenant for messages that name none.
//
// A plain value.

#ifndef SERVICES_MASTER_INGEST_KAFKA_TOPIC_RULES_H_
#define SERVICES_MASTER_INGEST_KAFKA_TOPIC_RULES_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace escapement::master {

class TopicRules {
 public:
  // INVALID_ARGUMENT: a malformed topic or tenant, a topic that is named twice, or no topic.
  static absl::StatusOr<TopicRules> Parse(const std::vector<std::string>& topics,
                                          const std::string& default_tenant);

  // The tenant of a message. `named` is the tenant that the message names, "" if it names none.
  // INVALID_ARGUMENT: it names none, and the topic has none for such messages, or the name is
  // malformed. PERMISSION_DENIED: the topic must not write to this tenant.
  absl::StatusOr<std::string> TenantOf(absl::string_view topic, absl::string_view named) const;

  bool Has(absl::string_view topic) const { return rules_.find(topic) != rules_.end(); }
  std::vector<std::string> Topics() const;

 private:
  struct Rule {
    std::vector<std::string> tenants;  // the first one gets messages that name none
    bool any = false;
  };
  std::map<std::string, Rule, std::less<>> rules_;
};

// True if Kafka takes the name for a topic.
bool IsTopicName(absl::string_view name);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_INGEST_KAFKA_TOPIC_RULES_H_
