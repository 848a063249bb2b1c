// Package traffic sends real requests to the Services of a lab and records what becomes of every one.
//
// A [Balancer] stands for the node's service proxy or the load balancer in front of the cluster: it follows EndpointSlices
// as kube-proxy does, each change taking effect only after a propagation delay, and sends every request over a new
// connection to the next endpoint. A [Generator] sends requests at a fixed rate, whatever becomes of the earlier ones.
//
// The package never retries and never hides: a request that could not be sent is a failed one with a cause.
package traffic
