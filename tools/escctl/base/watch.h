// -w/--watch of get and list: the command reads every second and prints the rows that changed.

#ifndef TOOLS_ESCCTL_BASE_WATCH_H_
#define TOOLS_ESCCTL_BASE_WATCH_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tools/escctl/base/session.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace escapement::escctl {

// The result of one reading.
struct Reading {
  grpc::Status status;
  std::vector<Row> rows;  // the first cell is the name
  std::vector<std::shared_ptr<const google::protobuf::Message>> messages;  // one for each row
  bool last = false;  // nothing will change any more

  template <typename Message, typename ToRow>
  static Reading Of(grpc::Status status, std::vector<Message> messages, const ToRow& to_row) {
    Reading reading{std::move(status), {}, {}};
    for (Message& message : messages) {
      reading.rows.push_back(to_row(message));
      reading.messages.push_back(std::make_shared<Message>(std::move(message)));
    }
    return reading;
  }
};

// Remembers the texts of the last reading by name. Pure.
class Changes {
 public:
  struct Result {
    std::vector<size_t> changed;    // positions in the reading, ascending
    std::vector<std::string> gone;  // names that the last reading had
  };
  // One name and text for each row.
  Result Take(const std::vector<std::pair<std::string, std::string>>& texts);

 private:
  std::map<std::string, std::string> last_;
};

class WatchFlags {
 public:
  void Add(CLI::App& command);
  bool wanted() const { return watch_; }

  // Prints the first reading and then changes, until the process is interrupted or a reading is the
  // last one. Names that are
  // gone are said on stderr. A server that cannot be reached for a while ends nothing after the
  // first reading.
  void Run(Session& session, const Row& header, const std::function<Reading()>& read) const;

 private:
  bool watch_ = false;
  int readings_max_ = 0;  // 0: no limit
};

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_BASE_WATCH_H_
