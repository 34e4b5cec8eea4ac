// Backups, and a store that is moved into a replicated one and back: real processes, escctl, and a
// real PostgreSQL. All that was stored before is there afterwards.

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/signing/aws_credentials.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/fixtures/postgres/postgres.h"
#include "tests/fixtures/s3/s3_server.h"
#include "tests/integration/escctl_fixture.h"

namespace escapement::integration {
namespace store_move_test {

namespace fs = std::filesystem;
using nlohmann::json;

class StoreMoveTest : public EscctlTest {
 protected:
  // A standalone platform. Its data folder is `folder`/data.
  std::unique_ptr<Platform> Standalone(const std::string& folder, std::vector<std::string> flags) {
    std::filesystem::create_directories(folder);
    auto platform = std::make_unique<Platform>(
        Platform::Options{.bin = BuiltFolder(),
                          .folder = folder,
                          .extra_arguments = {{"standalone", std::move(flags)}}});
    const absl::Status started = platform->Start({"standalone"});
    EXPECT_TRUE(started.ok()) << started;
    return platform;
  }
  void CreateEvent(const std::string& server, const std::string& name) {
    const Said created = Run({"--server", server, "event", "create", name, "--due", "+24h",
                              "--http", receiver_->origin() + "/event"});
    EXPECT_EQ(created.exit_code, 0) << created.words;
  }
  bool Has(const std::string& server, const std::string& name) {
    return Run({"--server", server, "event", "get", name}).exit_code == 0;
  }
  // Runs the store for a work that ends.
  int RunStore(std::vector<std::string> arguments) {
    auto child = ChildProcess::Start({.program = BuiltFolder() + "/services/store/store",
                                      .arguments = std::move(arguments),
                                      .log = absl::StrCat(folder_, "/task", ++runs_)});
    EXPECT_TRUE(child.ok()) << child.status();
    return *(*child)->Wait(absl::Seconds(60));
  }
};

TEST_F(StoreMoveTest, ABackupIsRestored) {
  const std::string server = platform_->grpc_address("standalone");
  CreateEvent(server, "kept");
  const std::string file = folder_ + "/backup";
  const Said exported = Run({"--server", server, "store", "snapshot", "export", file});
  ASSERT_EQ(exported.exit_code, 0) << exported.words;
  CreateEvent(server, "later");
  EXPECT_EQ(Run({"--server", server, "store", "snapshot", "export", file}).exit_code, 1)
      << "a backup is not overwritten";
  const auto before = Json({"--server", server, "store", "status"});

  const std::string data = folder_ + "/restored/data";
  const Said imported = Run({"store", "snapshot", "import", file, "--data-dir", data});
  ASSERT_EQ(imported.exit_code, 0) << imported.words;
  EXPECT_EQ(Run({"store", "snapshot", "import", file, "--data-dir", data}).exit_code, 1);
  auto restored = Standalone(folder_ + "/restored", {});
  const std::string there = restored->grpc_address("standalone");
  EXPECT_TRUE(Has(there, "kept"));
  EXPECT_FALSE(Has(there, "later"));
  // Clients of the former store cannot take it for that one.
  const auto after = Json({"--server", there, "store", "status"});
  EXPECT_GT(std::stoll(after["incarnation"].get<std::string>()),
            std::stoll(before["incarnation"].get<std::string>()));
  ASSERT_TRUE(restored->Terminate("standalone").ok());

  // A store is replaced only once its process has ended, and is kept.
  const std::string own = folder_ + "/data";
  const std::vector<std::string> replace = {"store",      "snapshot", "import",   file,
                                            "--data-dir", own,        "--replace"};
  EXPECT_EQ(Run(replace).exit_code, 1);
  EXPECT_TRUE(Has(server, "later"));
  ASSERT_TRUE(platform_->Terminate("standalone").ok());
  const Said replaced = Run(replace);
  EXPECT_EQ(replaced.exit_code, 0) << replaced.words;
  EXPECT_TRUE(std::ifstream(own + "/former.1/db/CURRENT").good());
  ASSERT_TRUE(platform_->Restart("standalone").ok());
  ASSERT_TRUE(platform_->AwaitReady("standalone").ok());
  EXPECT_TRUE(Has(server, "kept"));
  EXPECT_FALSE(Has(server, "later"));

  // A folder keeps the newest ones of its own names, and no drafts.
  const fs::path backups = folder_ + "/backups";
  const fs::path older = backups / "escapement-20200101T000000Z.snapshot";
  const fs::path draft = older.string() + ".part";
  const fs::path foreign = backups / "escapement-20200101.snapshot";
  fs::create_directory(backups);
  for (const fs::path& path : {older, draft, foreign}) std::ofstream(path) << "old";
  const std::vector<std::string> keep = {"--server", server,  "store", "snapshot",
                                         "export",   backups, "--keep"};
  const auto keeping = [this, &keep](const std::string& count) {
    auto words = keep;
    words.push_back(count);
    return Run(words);
  };
  const Said first = keeping("2");
  ASSERT_EQ(first.exit_code, 0) << first.words;
  EXPECT_TRUE(fs::exists(older));
  EXPECT_TRUE(fs::exists(foreign));
  EXPECT_FALSE(fs::exists(draft));
  EXPECT_EQ(std::distance(fs::directory_iterator(backups), fs::directory_iterator()), 3);
  ASSERT_TRUE(
      Run({"store", "snapshot", "import", backups, "--data-dir", folder_ + "/newest"}).exit_code ==
      0)
      << "the newest one is imported";
  // An export that fails deletes nothing.
  const Said failed =
      Run({"--server", "127.0.0.1:1", "store", "snapshot", "export", backups, "--keep", "1"});
  EXPECT_NE(failed.exit_code, 0);
  EXPECT_TRUE(fs::exists(older));
  EXPECT_EQ(keeping("0").exit_code, 2);
  EXPECT_EQ(Run({"--server", server, "store", "snapshot", "export", folder_ + "/x", "--keep", "1"})
                .exit_code,
            1);

  // A draft that cannot be deleted is named, and does not keep the others.
  const fs::path others = folder_ + "/others";
  const fs::path stuck = others / "escapement-20210101T000000Z.snapshot.part";
  const fs::path dead = others / "escapement-20220101T000000Z.snapshot.part";
  fs::create_directories(stuck / "full");
  std::ofstream(dead) << "old";
  const Said unfinished =
      Run({"--server", server, "store", "snapshot", "export", others, "--keep", "1"});
  EXPECT_EQ(unfinished.exit_code, 1);
  EXPECT_NE(unfinished.words.find("cannot delete " + stuck.string()), std::string::npos)
      << unfinished.words;
  EXPECT_FALSE(fs::exists(dead));

  // A damaged file makes no store.
  std::fstream damage(file, std::ios::in | std::ios::out | std::ios::binary);
  damage.seekp(5000);
  damage.put('\x55').put('\xaa').put('\x55');
  damage.close();
  const Said refused =
      Run({"store", "snapshot", "import", file, "--data-dir", folder_ + "/damaged"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.words.find("damaged"), std::string::npos) << refused.words;
  EXPECT_FALSE(std::ifstream(folder_ + "/damaged/db/CURRENT").good());
}

// Exports to one prefix of a bucket, and restores.
class BackupInS3Test : public StoreMoveTest {
 protected:
  static constexpr char kOlder[] = "prod/escapement-20200101T000000Z.snapshot";

  void SetUp() override {
    StoreMoveTest::SetUp();
    server_ = platform_->grpc_address("standalone");
    const AwsEnvironment keys = fixtures::S3Server::Environment();
    environment_.push_back("AWS_ACCESS_KEY_ID=" + keys.access_key_id);
    environment_.push_back("AWS_SECRET_ACCESS_KEY=" + keys.secret_access_key);
  }
  Said Export(std::vector<std::string> more, const std::string& to = "s3://backups/prod") {
    std::vector<std::string> words = {"--server", server_, "store",         "snapshot",
                                      "export",   to,      "--s3-endpoint", s3_.origin()};
    words.insert(words.end(), more.begin(), more.end());
    return Run(words);
  }
  Said Import(const std::string& from, const std::string& data) {
    return Run(
        {"store", "snapshot", "import", from, "--data-dir", data, "--s3-endpoint", s3_.origin()});
  }
  std::vector<std::string> Keys() {
    std::vector<std::string> keys;
    for (const auto& [key, bytes] : s3_.Objects("backups")) keys.push_back(key);
    return keys;
  }

  fixtures::S3Server s3_;
  std::string server_;
};

TEST_F(BackupInS3Test, IsRestoredElsewhere) {
  CreateEvent(server_, "kept");
  // The connection is cut inside the upload, and S3 is busy.
  s3_.Script("PutObject",
             json::array({{{"cut", 1000}}, {{"error", {503, "SlowDown"}}}, json::object()}));
  const Said exported = Export({});
  ASSERT_EQ(exported.exit_code, 0) << exported.words;
  ASSERT_EQ(Keys().size(), 1u);
  const std::string address = "s3://backups/" + Keys()[0];
  EXPECT_NE(exported.words.find(address), std::string::npos) << exported.words;
  EXPECT_TRUE(s3_.Requests("ListObjectsV2").empty()) << "it needs only the right to write";
  CreateEvent(server_, "later");

  s3_.Script("GetObject", json::array({{{"cut_answer", 3000}}, json::object()}));
  const Said imported = Import("s3://backups/prod", folder_ + "/elsewhere/data");
  ASSERT_EQ(imported.exit_code, 0) << imported.words;
  EXPECT_NE(imported.words.find(address), std::string::npos) << imported.words;
  auto restored = Standalone(folder_ + "/elsewhere", {});
  const std::string there = restored->grpc_address("standalone");
  EXPECT_TRUE(Has(there, "kept"));
  EXPECT_FALSE(Has(there, "later"));
  ASSERT_TRUE(restored->Terminate("standalone").ok());

  EXPECT_EQ(Import(address, folder_ + "/named").exit_code, 0);
  s3_.Put("backups", "prod/bad.snapshot", "no snapshot");
  const Said damaged = Import("s3://backups/prod/bad.snapshot", folder_ + "/damaged");
  EXPECT_EQ(damaged.exit_code, 1);
  EXPECT_FALSE(std::ifstream(folder_ + "/damaged/db/CURRENT").good());
  const Said none = Import("s3://backups/other", folder_ + "/none");
  EXPECT_EQ(none.exit_code, 3);
  EXPECT_NE(none.words.find("has no backup"), std::string::npos) << none.words;
}

TEST_F(BackupInS3Test, KeepsTheNewestAndDeletesWhatBroke) {
  const std::vector<std::string> foreign = {"prod/escapement-20200101.snapshot", "prod/notes",
                                            "staging/escapement-20200101T000000Z.snapshot"};
  for (const std::string& key : foreign) s3_.Put("backups", key, "foreign");
  s3_.Put("backups", kOlder, "old");
  s3_.BeginUpload("backups", kOlder);
  s3_.BeginUpload("backups", foreign[1]);
  s3_.BeginUpload("backups", foreign[2]);

  s3_.Script("PutObject", json::array({{{"error", {403, "AccessDenied"}}}, json::object()}));
  const Said refused = Export({"--keep", "1"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.words.find("S3: AccessDenied"), std::string::npos) << refused.words;
  EXPECT_EQ(s3_.Objects("backups")[kOlder], "old") << "a failed export deletes nothing";

  const Said two = Export({"--keep", "2"});
  ASSERT_EQ(two.exit_code, 0) << two.words;
  EXPECT_EQ(Keys().size(), 5u);
  EXPECT_EQ(s3_.Objects("backups")[kOlder], "old");
  EXPECT_EQ(s3_.Uploads("backups"), (std::vector<std::string>{foreign[1], foreign[2]}));

  s3_.Put("backups", "prod/escapement-20210101T000000Z.snapshot", "newer");
  s3_.Put("backups", "prod/escapement-29990101T000000Z.snapshot", "of a wrong clock");
  const Said later = Export({"--keep", "1"});
  EXPECT_EQ(later.exit_code, 1);
  EXPECT_NE(later.words.find("later name"), std::string::npos) << later.words;
  EXPECT_EQ(s3_.Requests("DeleteObject").size(), 0u);
}

TEST_F(BackupInS3Test, RefusesWhatItCannotReach) {
  EXPECT_EQ(Export({}, "s3://backups/one.snapshot").exit_code, 1);
  EXPECT_EQ(Export({}, "s3://b").exit_code, 1);
  environment_.back() = "AWS_SECRET_ACCESS_KEY=wrong-canary";
  const Said wrong = Export({"--keep", "1"});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_NE(wrong.words.find("SignatureDoesNotMatch"), std::string::npos) << wrong.words;
  EXPECT_EQ(wrong.words.find("--key-file"), std::string::npos) << wrong.words;
  EXPECT_EQ(wrong.words.find("canary"), std::string::npos) << wrong.words;
  EXPECT_TRUE(Keys().empty());
}

TEST_F(BackupInS3Test, OldestOnesGo) {
  s3_.Put("backups", kOlder, "old");
  for (int year = 2010; year < 2016; ++year)
    s3_.Put("backups", absl::StrCat("prod/escapement-", year, "0101T000000Z.snapshot"), "older");
  const Said kept = Export({"--keep", "2"});
  ASSERT_EQ(kept.exit_code, 0) << kept.words;
  ASSERT_EQ(Keys().size(), 2u);
  EXPECT_EQ(Keys()[0], kOlder);
  EXPECT_NE(kept.words.find(Keys()[1]), std::string::npos) << kept.words;
}

TEST_F(StoreMoveTest, AStoreBecomesReplicatedAndSingleAgain) {
  auto postgres = fixtures::Postgres::Start();
  ASSERT_TRUE(postgres.ok()) << postgres.status();
  const std::string through = "--replicate_through=" + (*postgres)->url();
  const std::string place = folder_ + "/place";
  const std::string data = place + "/data";
  {
    auto single = Standalone(place, {});
    CreateEvent(single->grpc_address("standalone"), "first");
    ASSERT_TRUE(single->Terminate("standalone").ok());
  }
  EXPECT_EQ(RunStore({"--migrate", through}), 0);
  EXPECT_EQ(RunStore({"--move_into_log", through, "--data_dir=" + data}), 0);
  EXPECT_EQ(RunStore({"--move_into_log", through, "--data_dir=" + data}), 1) << "it is moved";
  {
    auto replica = Standalone(place, {through, "--store_id=a", "--advertise=127.0.0.1:1"});
    const std::string server = replica->grpc_address("standalone");
    EXPECT_TRUE(Has(server, "first"));
    CreateEvent(server, "second");
    const std::string file = folder_ + "/of-a-replica";
    const Said exported = Run({"--server", server, "store", "snapshot", "export", file});
    EXPECT_EQ(exported.exit_code, 0) << exported.words;
    const std::string copy = folder_ + "/copy";
    EXPECT_EQ(Run({"store", "snapshot", "import", file, "--data-dir", copy + "/data"}).exit_code,
              0);
    auto copied = Standalone(copy, {});
    EXPECT_TRUE(Has(copied->grpc_address("standalone"), "second"));
    ASSERT_TRUE(copied->Terminate("standalone").ok());
    ASSERT_TRUE(replica->Terminate("standalone").ok());
  }
  const std::string back = folder_ + "/back";
  EXPECT_EQ(RunStore({"--move_out_of_log", through, "--data_dir=" + back + "/data"}), 0);
  auto single = Standalone(back, {});
  const std::string server = single->grpc_address("standalone");
  EXPECT_TRUE(Has(server, "first"));
  EXPECT_TRUE(Has(server, "second"));
  ASSERT_TRUE(single->Terminate("standalone").ok());
}

// Sets variables of the environment for processes that are started while it lives.
class Variables {
 public:
  explicit Variables(std::map<std::string, std::string> values) : values_(std::move(values)) {
    for (const auto& [name, value] : values_) setenv(name.c_str(), value.c_str(), 1);
  }
  ~Variables() {
    for (const auto& [name, value] : values_) unsetenv(name.c_str());
  }

 private:
  const std::map<std::string, std::string> values_;
};

TEST_F(StoreMoveTest, AReplicaWithAnEmptyFolderStartsFromS3) {
  auto postgres = fixtures::Postgres::Start();
  ASSERT_TRUE(postgres.ok()) << postgres.status();
  const fixtures::S3Server s3;
  const AwsEnvironment keys = fixtures::S3Server::Environment();
  const Variables variables({{"AWS_ACCESS_KEY_ID", keys.access_key_id},
                             {"AWS_SECRET_ACCESS_KEY", keys.secret_access_key},
                             {"AWS_ENDPOINT_URL_S3", s3.origin()}});
  const std::string through = "--replicate_through=" + (*postgres)->url();
  const std::string snapshots = "--snapshots=s3://snapshots/prod";
  const std::string place = folder_ + "/of-s3";
  {
    auto single = Standalone(place, {});
    CreateEvent(single->grpc_address("standalone"), "first");
    ASSERT_TRUE(single->Terminate("standalone").ok());
  }
  // The state goes to S3. PostgreSQL has the log's rows, and the names of the objects.
  ASSERT_EQ(RunStore({"--move_into_log", through, snapshots, "--data_dir=" + place + "/data"}), 0);
  EXPECT_GT(s3.Objects("snapshots").size(), 2u);
  for (const auto& [key, bytes] : s3.Objects("snapshots"))
    EXPECT_EQ(key.rfind("prod/default/", 0), 0u) << key;
  EXPECT_EQ((*postgres)->One("SELECT max(octet_length(data)) < 300 FROM escapement.log_file_parts"),
            "t");
  const std::string out = folder_ + "/out";
  EXPECT_EQ(RunStore({"--move_out_of_log", through, "--data_dir=" + out}), 1)
      << "nothing says where S3 is";
  std::ifstream log(absl::StrCat(folder_, "/task", runs_));
  const std::string words(std::istreambuf_iterator<char>(log), {});
  EXPECT_NE(words.find("s3://snapshots/prod/default/"), std::string::npos) << words;
  EXPECT_NE(words.find("--snapshots"), std::string::npos) << words;

  auto replica =
      Standalone(folder_ + "/new", {through, snapshots, "--store_id=a", "--advertise=127.0.0.1:1"});
  EXPECT_TRUE(Has(replica->grpc_address("standalone"), "first"));
  ASSERT_TRUE(replica->Terminate("standalone").ok());
}

}  // namespace store_move_test
}  // namespace escapement::integration
