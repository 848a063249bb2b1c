package rehearse

import (
	"context"
	"fmt"

	"github.com/segue-dev/segue/lab/traffic"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// load sends the requests of a run; it is the scenario's Traffic.
type load struct {
	client     kubernetes.Interface
	balancer   *traffic.Balancer
	namespace  string
	generators []*traffic.Generator
	services   []string // of the generators
}

// Load starts a generator for the Service.
func (l *load) Load(ctx context.Context, service string, rate int, path string) error {
	if _, err := l.client.CoreV1().Services(l.namespace).Get(ctx, service, metav1.GetOptions{}); err != nil {
		return fmt.Errorf("send requests to service %q: %w", service, err)
	}
	g, err := traffic.NewGenerator(l.balancer, traffic.GeneratorOptions{Namespace: l.namespace, Service: service, Rate: float64(rate), Path: path})
	if err != nil {
		return err
	}
	g.Start()
	l.generators, l.services = append(l.generators, g), append(l.services, service)
	return nil
}

// stop ends the sending and returns every request that was sent, when all have ended.
func (l *load) stop() []request {
	var sent []request
	for i, g := range l.generators {
		g.Stop()
		for _, r := range g.Results() {
			sent = append(sent, request{at: r.Sent, service: l.services[i], failed: r.Failed(), cause: string(r.Cause)})
		}
	}
	return sent
}
