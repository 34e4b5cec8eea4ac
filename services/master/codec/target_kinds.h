// How each kind of target is validated, stored and shown: one pair of functions for each, which
// target_codec.cc has in a table.
//
// Read… adds violations with fields below `field` ("schedule.target.http"). Secrets are stored as
// they were given, in clear or as placeholders; TargetSecrets seals them afterwards. Write… shows
// placeholders for sealed secrets. Pure.

#ifndef SERVICES_MASTER_CODEC_TARGET_KINDS_H_
#define SERVICES_MASTER_CODEC_TARGET_KINDS_H_

#include <string>

#include "common/status/errors.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/resources.pb.h"

namespace escapement::master {

using ReadTargetKind = void(const v1::Target& target, const std::string& field,
                            storage::v1::TargetRecord& record, FieldViolations& violations);
using WriteTargetKind = void(const storage::v1::TargetRecord& record, v1::Target& target);

ReadTargetKind ReadHttp, ReadGrpc, ReadSqs, ReadKafka, ReadSlack, ReadEmail, ReadPing;
WriteTargetKind WriteHttp, WriteGrpc, WriteSqs, WriteKafka, WriteSlack, WriteEmail, WritePing;

}  // namespace escapement::master

#endif  // SERVICES_MASTER_CODEC_TARGET_KINDS_H_
