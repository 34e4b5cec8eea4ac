// The services of production as parts of simulated machines.

#ifndef TESTS_SIMULATION_SERVICES_H_
#define TESTS_SIMULATION_SERVICES_H_

#include <memory>
#include <string>

#include "common/kv/kv_store.h"
#include "common/sim/sim_process.h"
#include "services/handler/delivery_transport.h"
#include "tests/simulation/hosts.h"
#include "tests/simulation/user_calls.h"

namespace escapement::simulation {

// `apis` receives what the master serves.
ServiceHost::Service MakeMaster(sim::SimProcess& process, kv::KvStore& store,
                                const std::string& instance, MasterApis* apis);
ServiceHost::Service MakeEmitter(sim::SimProcess& process, kv::KvStore& store,
                                 const std::string& instance);
ServiceHost::Service MakeHandler(sim::SimProcess& process, kv::KvStore& store,
                                 const std::string& instance,
                                 std::unique_ptr<handler::DeliveryTransport> transport);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_SERVICES_H_
