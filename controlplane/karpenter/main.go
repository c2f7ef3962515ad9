// Karpenter with its KWOK provider: its own controllers, without the ports that it opens on every address.
package main

import (
	"context"
	_ "unsafe" // for go:linkname

	"github.com/go-logr/zapr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	kwok "sigs.k8s.io/karpenter/kwok/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/overlay"
	"sigs.k8s.io/karpenter/pkg/controllers"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeoverlay"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	"sigs.k8s.io/karpenter/pkg/operator/logging"
	"sigs.k8s.io/karpenter/pkg/operator/options"
)

//go:linkname setupIndexers sigs.k8s.io/karpenter/pkg/operator.setupIndexers
func setupIndexers(ctx context.Context, mgr manager.Manager)

func main() {
	ctx := injection.WithOptionsOrDie(context.Background(), options.Injectables...)
	log.SetLogger(zapr.NewLogger(logging.NewLogger(ctx, "controller")))
	ctx = log.IntoContext(ctx, log.Log)
	types, err := kwok.ConstructInstanceTypes(ctx)
	if err != nil {
		panic(err)
	}
	op := newOperator(ctx)
	undecorated := kwok.NewCloudProvider(ctx, op.GetClient(), types)
	provider := overlay.Decorate(undecorated, op.GetClient(), op.InstanceTypeStore)
	cluster := state.NewCluster(op.Clock, op.GetClient(), provider)
	op.WithControllers(ctx, controllers.NewControllers(ctx, op.Manager, op.Clock, op.GetClient(),
		op.EventRecorder, provider, undecorated, cluster, op.InstanceTypeStore)...).Start(ctx)
}

func newOperator(ctx context.Context) *operator.Operator {
	config := ctrl.GetConfigOrDie()
	config.QPS, config.Burst = float32(options.FromContext(ctx).KubeClientQPS), options.FromContext(ctx).KubeClientBurst
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Metrics:                server.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
		BaseContext:            func() context.Context { return ctx },
	})
	if err != nil {
		panic(err)
	}
	setupIndexers(ctx, mgr)
	return &operator.Operator{
		Manager:             mgr,
		KubernetesInterface: kubernetes.NewForConfigOrDie(config),
		EventRecorder:       events.NewRecorder(mgr.GetEventRecorderFor("karpenter")),
		Clock:               clock.RealClock{},
		InstanceTypeStore:   nodeoverlay.NewInstanceTypeStore(),
	}
}
