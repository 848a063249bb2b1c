// Package play plays a kubelet for the lab's served pods: pods that carry the annotation lab.segue.dev/serve: "true" and
// are bound to a node. Every one of them answers real HTTP on loopback, becomes Ready after its start delay, and stops
// in the order in which a kubelet stops a pod: preStop hook, SIGTERM, the application's own shutdown, SIGKILL at the end
// of the grace period, final status, deletion. What a pod does in each of these steps comes from annotations, see
// [Behaviour].
//
// All other pods belong to KWOK; the two can share a node. The package never decides what happens to a pod: it reacts to
// the API server only, writes nothing but the status of served pods, and deletes them where a kubelet would.
//
// The files: behaviour.go reads the annotations, life.go is the state machine of one pod without clock or I/O, status.go
// turns it into a PodStatus, server.go is the pod's HTTP server, actor.go joins these for one pod, reporter.go writes to
// the API server, address.go hands out pod addresses, player.go watches the cluster.
package play
