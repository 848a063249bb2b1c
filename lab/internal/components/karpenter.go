package components

import (
	"context"
	"fmt"
	"os"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	kwokapis "sigs.k8s.io/karpenter/kwok/apis"
	kwok "sigs.k8s.io/karpenter/kwok/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/apis"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/overlay"
	"sigs.k8s.io/karpenter/pkg/controllers"
	"sigs.k8s.io/karpenter/pkg/controllers/node/health"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/operator"
)

// crdTimeout bounds how long the API server may take to serve Karpenter's kinds.
const crdTimeout = 30 * time.Second

// karpenterSeams is where the lab may differ from the stock Karpenter. Nil fields are stock.
type karpenterSeams struct {
	// clock replaces Karpenter's clock.
	clock clock.Clock
	// cloudProvider wraps the KWOK provider, to inject faults such as missing capacity or slow launches.
	cloudProvider func(cloudprovider.CloudProvider) cloudprovider.CloudProvider
}

// runKarpenter installs Karpenter's kinds and runs its core with the KWOK provider. Settings come from the environment,
// as in Karpenter's own Deployment. It ends with the process: like the stock main it has no graceful stop.
func runKarpenter(ctx context.Context, l launch) error {
	if err := installKarpenterCRDs(ctx); err != nil {
		return err
	}
	var seams karpenterSeams
	if l.fastClock > 0 {
		seams.clock = cappedClock{max: l.fastClock}
	}
	// NewOperator reads its flags from the command line of the process.
	os.Args = append([]string{"karpenter"}, l.args...)
	return startKarpenter(ctx, seams)
}

// startKarpenter mirrors kwok/main.go of the Karpenter module, apart from the seams.
func startKarpenter(stopped context.Context, seams karpenterSeams) error {
	ctx, op := operator.NewOperator()
	if seams.clock != nil {
		op.Clock = seams.clock
	}
	instanceTypes, err := kwok.ConstructInstanceTypes(ctx)
	if err != nil {
		return fmt.Errorf("read instance types: %w", err)
	}
	var undecorated cloudprovider.CloudProvider = kwok.NewCloudProvider(ctx, op.GetClient(), instanceTypes)
	if seams.cloudProvider != nil {
		undecorated = seams.cloudProvider(undecorated)
	}
	provider := overlay.Decorate(undecorated, op.GetClient(), op.InstanceTypeStore)
	repairs, err := health.NewRepairPolicyMatcher(ctx, provider)
	if err != nil {
		return fmt.Errorf("read repair policies: %w", err)
	}
	cluster := state.NewCluster(op.Clock, op.GetClient(), provider, state.WithRepairPolicyMatcher(repairs))
	op.WithControllers(ctx, controllers.NewControllers(ctx, op.Manager, op.Clock, op.GetClient(), op.EventRecorder,
		provider, undecorated, cluster, op.InstanceTypeStore, op.PredictionStore)...)
	go func() {
		<-stopped.Done()
		os.Exit(0) // as abrupt as the stock main, whose default is to die of SIGTERM
	}()
	op.Start(ctx)
	return nil
}

// installKarpenterCRDs creates what is missing of Karpenter's and its KWOK provider's kinds and waits until they are
// served.
func installKarpenterCRDs(ctx context.Context) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	clients, err := apiextensions.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	client := clients.ApiextensionsV1().CustomResourceDefinitions()
	all := append(append([]*apiextensionsv1.CustomResourceDefinition{}, apis.CRDs...), kwokapis.CRDs...)
	for _, crd := range all {
		if _, err := client.Create(ctx, crd, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create CustomResourceDefinition %s: %w", crd.Name, err)
		}
	}
	for _, crd := range all {
		err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, crdTimeout, true, func(ctx context.Context) (bool, error) {
			got, err := client.Get(ctx, crd.Name, metav1.GetOptions{})
			return err == nil && isEstablished(got), nil
		})
		if err != nil {
			return fmt.Errorf("wait for CustomResourceDefinition %s to be served: %w", crd.Name, err)
		}
	}
	return nil
}

func isEstablished(crd *apiextensionsv1.CustomResourceDefinition) bool {
	for _, c := range crd.Status.Conditions {
		if c.Type == apiextensionsv1.Established {
			return c.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}

// cappedClock is the real clock, but a wait by After never takes longer than max. In Karpenter 1.15 that shortens the 15 s
// between finding and validating a consolidation (pkg/controllers/disruption/validation.go); now and all timers are real.
type cappedClock struct {
	clock.RealClock
	max time.Duration
}

func (c cappedClock) After(d time.Duration) <-chan time.Time {
	return c.RealClock.After(min(d, c.max))
}
