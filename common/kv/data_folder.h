// Names inside a store's data folder.

#ifndef COMMON_KV_DATA_FOLDER_H_
#define COMMON_KV_DATA_FOLDER_H_

namespace escapement::kv {

// RocksDB's folder. In a data folder it is that of a store that is not replicated.
inline constexpr char kDatabaseFolder[] = "db";
// witness_file.h
inline constexpr char kWitnessFile[] = "witness";
// The folder of a replica's copy. A store that is not replicated refuses such a data folder.
inline constexpr char kReplicaFolder[] = "replica";
// An import leaves this empty file. The next start of the store begins a new incarnation, because
// clients may have seen later commits than the snapshot has, and removes the file.
inline constexpr char kImportedFile[] = "imported";
// A store that was moved into a shared log has left its database and witness here.
inline constexpr char kMovedFolder[] = "moved-into-log";

}  // namespace escapement::kv

#endif  // COMMON_KV_DATA_FOLDER_H_
