package main

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// scaler is the common part of the kinds that change the number of a workload's pods.
type scaler struct {
	name         string
	target       autoscalingv2.CrossVersionObjectReference
	least, most  int32
	behavior     *autoscalingv2.HorizontalPodAutoscalerBehavior
	utilizations []corev1.ResourceName // the resources whose use it compares with the requests
}

// scaledObject is the part of KEDA's kind that the tree uses.
type scaledObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Target   autoscalingv2.CrossVersionObjectReference `json:"scaleTargetRef"`
		Polling  int32                                     `json:"pollingInterval"`
		Least    int32                                     `json:"minReplicaCount"`
		Most     int32                                     `json:"maxReplicaCount"`
		Advanced struct {
			HPA struct {
				Behavior *autoscalingv2.HorizontalPodAutoscalerBehavior `json:"behavior"`
			} `json:"horizontalPodAutoscalerConfig"`
		} `json:"advanced"`
		Triggers []struct {
			Type       string                         `json:"type"`
			MetricType autoscalingv2.MetricTargetType `json:"metricType"`
			Metadata   struct {
				Server     string `json:"serverAddress"`
				Query      string `json:"query"`
				Threshold  string `json:"threshold"`
				IgnoreNull string `json:"ignoreNullValues"`
			} `json:"metadata"`
		} `json:"triggers"`
	} `json:"spec"`
}

// schedulingObject reads an object of a kind that decides where and how many pods run.
func (c *checker) schedulingObject(kind string, doc []byte) error {
	switch kind {
	case "scheduling.k8s.io/v1 PriorityClass":
		v, err := strict[schedulingv1.PriorityClass](doc)
		c.priorities[v.Name] = v
		return err
	case "autoscaling/v2 HorizontalPodAutoscaler":
		v, err := strict[autoscalingv2.HorizontalPodAutoscaler](doc)
		s := scaler{
			name: v.Kind + " " + v.Name, target: v.Spec.ScaleTargetRef, least: 1,
			most: v.Spec.MaxReplicas, behavior: v.Spec.Behavior,
		}
		if v.Spec.MinReplicas != nil {
			s.least = *v.Spec.MinReplicas
		}
		for _, m := range v.Spec.Metrics {
			if m.Resource != nil && m.Resource.Target.AverageUtilization != nil {
				s.utilizations = append(s.utilizations, m.Resource.Name)
			}
		}
		if len(v.Spec.Metrics) == 0 {
			c.say("%s has no metric", s.name)
		}
		c.scalers = append(c.scalers, s)
		return err
	case "keda.sh/v1alpha1 ScaledObject":
		v, err := strict[scaledObject](doc)
		c.scalers = append(c.scalers, scaler{
			name: v.Kind + " " + v.Name, target: v.Spec.Target, least: v.Spec.Least,
			most: v.Spec.Most, behavior: v.Spec.Advanced.HPA.Behavior,
		})
		c.triggers(v)
		return err
	}
	return fmt.Errorf("%s is an unknown kind", kind)
}

// triggers checks the metrics of a ScaledObject. Without values they must not count as 0, because
// then a failure of Prometheus would end all pods but the fewest.
func (c *checker) triggers(o scaledObject) {
	if len(o.Spec.Triggers) == 0 {
		c.say("ScaledObject %s has no trigger", o.Name)
	}
	for _, t := range o.Spec.Triggers {
		m := t.Metadata
		if n, err := strconv.ParseFloat(m.Threshold, 64); err != nil || n <= 0 ||
			t.Type != "prometheus" || t.MetricType != autoscalingv2.AverageValueMetricType ||
			m.Server == "" || m.Query == "" {
			c.say("ScaledObject %s: a trigger is not complete: %+v", o.Name, t)
		}
		if m.IgnoreNull != "false" {
			c.say("ScaledObject %s: a query without a result would count as 0", o.Name)
		}
	}
}

// scaling checks what decides where and how many pods run: priorities, scalers and budgets.
func (c *checker) scaling() {
	for _, w := range c.workloads {
		name := w.kind + " " + w.name
		class := w.pod.Spec.PriorityClassName
		if p, ok := c.priorities[class]; !ok || p.Value <= 0 || p.GlobalDefault ||
			p.PreemptionPolicy != nil && *p.PreemptionPolicy == corev1.PreemptNever {
			c.say("%s has no priority above other pods: %q", name, class)
		}
		scalers := 0
		for _, s := range c.scalers {
			if s.target.Kind == w.kind && s.target.Name == w.name {
				scalers++
				c.scaler(s, w)
			}
		}
		if scalers > 1 {
			c.say("%s has %d scalers", name, scalers)
		}
		if scalers == 1 && w.count != nil {
			c.say("%s has a number of replicas, which each kubectl apply would restore", name)
		}
		several := w.replicas && (scalers > 0 || w.count == nil || *w.count > 1)
		if several && !c.hasBudget(w) {
			c.say("%s has no disruption budget", name)
		}
	}
	for _, s := range c.scalers {
		if !slices.ContainsFunc(c.workloads, func(w workload) bool {
			return s.target.Kind == w.kind && s.target.Name == w.name && w.replicas &&
				s.target.APIVersion == "apps/v1"
		}) {
			c.say("%s: there is no %s %s", s.name, s.target.Kind, s.target.Name)
		}
	}
}

func (c *checker) hasBudget(w workload) bool {
	return slices.ContainsFunc(c.budgets, func(b policyv1.PodDisruptionBudget) bool {
		return matches(b.Spec.Selector, w.pod.Labels)
	})
}

// scaler checks one scaler of a workload.
func (c *checker) scaler(s scaler, w workload) {
	if s.least < 2 || s.most <= s.least {
		c.say("%s: from %d to %d pods", s.name, s.least, s.most)
	}
	spec := w.pod.Spec
	for _, r := range s.utilizations {
		for _, container := range spec.Containers {
			if _, ok := container.Resources.Requests[r]; !ok {
				c.say("%s: %s of %s requests no %s", s.name, container.Name, w.name, r)
			}
		}
	}
	// One pod at a time, and each has ended before the next one begins to end.
	down := s.behavior
	if down == nil || down.ScaleDown == nil || len(down.ScaleDown.Policies) != 1 ||
		spec.TerminationGracePeriodSeconds == nil {
		c.say("%s has not exactly one policy for fewer pods", s.name)
		return
	}
	p := down.ScaleDown.Policies[0]
	if p.Type != autoscalingv2.PodsScalingPolicy || p.Value != 1 ||
		int64(p.PeriodSeconds) < *spec.TerminationGracePeriodSeconds || p.PeriodSeconds > 1800 {
		c.say("%s: pods have %s to end, but %d may end in %s", s.name,
			time.Duration(*spec.TerminationGracePeriodSeconds)*time.Second, p.Value,
			time.Duration(p.PeriodSeconds)*time.Second)
	}
	if !slices.ContainsFunc(spec.Volumes,
		func(v corev1.Volume) bool { return v.HostPath != nil }) {
		return
	}
	// The data on a machine that is removed is lost, and two pods must not have the same folder.
	if !slices.ContainsFunc(spec.Containers,
		func(c corev1.Container) bool { return blobStore(c) && drains(c) }) {
		c.say("%s: sessions on the disk of a machine are lost with it: there is no blob store"+
			", or no preStop hook that moves them", s.name)
	}
	if !apart(spec, w.pod.Labels) {
		c.say("%s: two pods may share the folder of a machine", s.name)
	}
}

// apart reports whether no two pods with the labels share a machine.
func apart(spec corev1.PodSpec, own map[string]string) bool {
	return spec.Affinity != nil && spec.Affinity.PodAntiAffinity != nil && slices.ContainsFunc(
		spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
		func(t corev1.PodAffinityTerm) bool {
			return t.TopologyKey == corev1.LabelHostname && matches(t.LabelSelector, own)
		})
}

// blobStore reports whether sessions of a node can move.
func blobStore(c corev1.Container) bool {
	return slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool {
		return e.Name == "SANDGATE_CLUSTER_BLOBS" && e.Value != ""
	})
}

// drains reports whether sessions of a node move before its pod ends.
func drains(c corev1.Container) bool {
	if c.Lifecycle == nil || c.Lifecycle.PreStop == nil || c.Lifecycle.PreStop.Exec == nil {
		return false
	}
	command := c.Lifecycle.PreStop.Exec.Command
	return len(command) > 3 && slices.Equal(command[:3], []string{
		"/usr/bin/sandgate", "node", "drain",
	})
}
