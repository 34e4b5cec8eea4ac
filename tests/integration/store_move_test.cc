// Backups, and a store that is moved into a replicated one and back: real processes, escctl, and a
// real PostgreSQL. All that was stored before is there afterwards.

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/fixtures/postgres/postgres.h"
#include "tests/integration/escctl_fixture.h"

namespace escapement::integration {
namespace store_move_test {

namespace fs = std::filesystem;

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

}  // namespace store_move_test
}  // namespace escapement::integration
