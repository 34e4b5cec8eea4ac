// The services of production as parts of simulated machines.

#ifndef TESTS_SIMULATION_WORLD_SERVICES_H_
#define TESTS_SIMULATION_WORLD_SERVICES_H_

#include <memory>
#include <string>

#include "common/kv/kv_store.h"
#include "common/sim/sim_process.h"
#include "common/sim/sim_rpc.h"
#include "common/tokens/token_door.h"
#include "services/handler/delivery/delivery_transport.h"
#include "tests/simulation/actors/user_calls.h"
#include "tests/simulation/world/hosts.h"

namespace escapement::simulation {

// Where consumers give tokens back.
using TokenEndpoint = sim::SimEndpoint<TokenApi>;

// `apis` receives the master's APIs, `door` its token API. `door` may be null.
ServiceHost::Service MakeMaster(sim::SimProcess& process, kv::KvStore& store,
                                const ServiceIdentity& self, MasterApis* apis, TokenEndpoint* door);
ServiceHost::Service MakeTokenManager(sim::SimProcess& process, kv::KvStore& store,
                                      const ServiceIdentity& self, TokenEndpoint* door);
ServiceHost::Service MakeEmitter(sim::SimProcess& process, kv::KvStore& store,
                                 const ServiceIdentity& self);
ServiceHost::Service MakeHandler(sim::SimProcess& process, kv::KvStore& store,
                                 const ServiceIdentity& self,
                                 std::unique_ptr<handler::DeliveryTransport> transport);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_WORLD_SERVICES_H_
