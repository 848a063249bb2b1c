// Package handover holds the tests of Segue's handovers on the real control plane: real API server, scheduler and
// controllers, the operator as a child process with the chart's rights. Each test bears the number of the case that it plays.
package handover
