//! The quality-of-service class of a container: the one from Kubernetes, or the one that its pod's label names, if it
//! is not better or the operator trusts the label.

use crate::{Ceilings, Container, Pod, Resources};
use numaloc_api::value::QosClass;
use numaloc_config::written::{SHOWN_MAX, shown};

/// The label that names a pod's class.
pub const QOS_LABEL: &str = "koordinator.sh/qosClass";

const CPU_SHARES: u64 = 1024;
/// The most shares that the kernel takes, and so the kubelet gives (`MAX_SHARES` in kernel/sched/core.c).
const SHARES_MAX: u64 = 1 << 18;
/// The shares of a container that requests no CPU.
const NO_SHARES: u64 = 2;

/// The class of a container. A container of a guaranteed pod with whole CPUs is LSR, because the kubelet's static CPU
/// manager gives it CPUs of its own; other ones of guaranteed and burstable pods are LS, and those of best-effort pods
/// BE. The label `koordinator.sh/qosClass` of its pod may name a lower class, and a better one if
/// [`Ceilings::qos_label`] allows that: LSR, LS or BE, and LSE, which counts as LSR.
pub fn qos_class(pod: &Pod, container: &Container, ceilings: &Ceilings) -> QosClass {
    let own = own_class(pod, container);
    match of_label(pod) {
        // Classes are ordered from the best to the worst.
        Ok(Some(named)) if ceilings.qos_label || named >= own => named,
        _ => own,
    }
}

/// A remark about the class that [`qos_class`] has returned; `None` if there is none.
pub fn note(pod: &Pod, class: QosClass) -> Option<String> {
    let class_name = class.name();
    match of_label(pod) {
        Err(unknown) => {
            let unknown = shown(unknown, SHOWN_MAX);
            Some(format!(
                "label {QOS_LABEL} is '{unknown}', which is not LSE, LSR, LS or BE: it counts as {class_name}"
            ))
        }
        Ok(Some(named)) if named < class => Some(format!(
            "label {QOS_LABEL} names the class {}, and the container has the resources of {class_name}: it counts as \
             {class_name}, because the operator of the node does not trust the label (pods.ceilings.qos_label)",
            named.name()
        )),
        Ok(_) => None,
    }
}

/// The class that the pod's label names; `None`: there is none, or it names none.
pub fn named(pod: &Pod) -> Option<QosClass> {
    of_label(pod).ok().flatten()
}

/// The class that the label names; the error is a value that names none.
fn of_label(pod: &Pod) -> Result<Option<QosClass>, &str> {
    let Some(value) = pod.labels.get(QOS_LABEL) else { return Ok(None) };
    match value.as_str() {
        "LSE" | "LSR" => Ok(Some(QosClass::Lsr)),
        "LS" => Ok(Some(QosClass::Ls)),
        "BE" => Ok(Some(QosClass::Be)),
        // Koordinator's webhook writes an empty label as none. Its class SYSTEM is for daemons of the node, and says nothing
        // about CPUs and memory.
        "" | "SYSTEM" => Ok(None),
        other => Err(other),
    }
}

fn own_class(pod: &Pod, container: &Container) -> QosClass {
    let resources = &container.resources;
    match KubeClass::of(&pod.cgroup_parent).unwrap_or_else(|| KubeClass::guess(resources)) {
        KubeClass::Guaranteed if has_whole_cpus(resources) => QosClass::Lsr,
        KubeClass::Guaranteed | KubeClass::Burstable => QosClass::Ls,
        KubeClass::BestEffort => QosClass::Be,
    }
}

/// The quality-of-service classes of Kubernetes (`PodQOSClass`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KubeClass {
    Guaranteed,
    Burstable,
    BestEffort,
}

impl KubeClass {
    /// The class by the cgroup of a pod. The kubelet has a cgroup for each class but guaranteed, whose pods are
    /// directly below `kubepods` (pkg/kubelet/cm/qos_container_manager_linux.go). `None` if it makes no such cgroups
    /// (`cgroupsPerQOS: false`), or if another program made the pod.
    fn of(cgroup_parent: &str) -> Option<Self> {
        // kubepods/burstable/pod..., or kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod....slice, or the
        // last of these alone. Some distributions put a slice of their own before them, which is none of these words.
        let words = || cgroup_parent.split(['/', '-', '.']).take_while(|word| !is_pod(word));
        if words().any(|word| word == "besteffort") {
            return Some(Self::BestEffort);
        }
        if words().any(|word| word == "burstable") {
            return Some(Self::Burstable);
        }
        words().any(|word| word == "kubepods").then_some(Self::Guaranteed)
    }

    /// The class by the container's resources. A container of a burstable pod may look as if its pod were guaranteed.
    fn guess(resources: &Resources) -> Self {
        let limited = |limit: Option<i64>| limit.is_some_and(|limit| limit > 0);
        let Resources { cpu_shares, cpu_quota_us, memory_limit_bytes, .. } = *resources;
        // -997 is also for critical pods of any class, but then nothing less is meant for them than for guaranteed
        // ones.
        match resources.oom_score_adj {
            Some(1000) => return Self::BestEffort,
            Some(-997) => return Self::Guaranteed,
            Some(2..=999) => return Self::Burstable,
            _ => {}
        }
        let asks_cpu = cpu_shares.is_some_and(|shares| shares > NO_SHARES);
        match (asks_cpu, limited(cpu_quota_us), limited(memory_limit_bytes)) {
            (true, true, true) if quota_is_shares(resources) => Self::Guaranteed,
            (false, false, false) => Self::BestEffort,
            _ => Self::Burstable,
        }
    }
}

/// Whether a word of a path is the part with a pod's uid. The words after it do not depend on the class.
fn is_pod(word: &str) -> bool {
    word.strip_prefix("pod").is_some_and(|uid| uid.starts_with(|c: char| c.is_ascii_hexdigit()))
}

/// Whether the limit of CPU time is what is requested, as it is in guaranteed pods.
fn quota_is_shares(resources: &Resources) -> bool {
    let quota = resources.cpu_quota_us.and_then(|quota| u64::try_from(quota).ok());
    let Some((quota, period)) = quota.zip(resources.cpu_period_us.filter(|&period| period > 0))
    else {
        return false;
    };
    let shares = u128::from(quota) * u128::from(CPU_SHARES) / u128::from(period);
    // Both were rounded down to thousandths of a CPU.
    resources.cpu_shares.is_some_and(|given| u128::from(given).abs_diff(shares) <= 1)
}

/// Whether a number of whole CPUs is requested. The shares show it, because the kubelet makes exactly 1,024 of each CPU
/// and takes away the quota of containers that have CPUs of their own.
fn has_whole_cpus(resources: &Resources) -> bool {
    match resources.cpu_shares {
        Some(SHARES_MAX..) => is_whole_quota(resources).unwrap_or(true),
        Some(shares) if shares > 0 => shares % CPU_SHARES == 0,
        _ => is_whole_quota(resources).unwrap_or(false),
    }
}

/// The same by the limit of CPU time; `None` if there is none.
fn is_whole_quota(resources: &Resources) -> Option<bool> {
    let quota = resources.cpu_quota_us.and_then(|quota| u64::try_from(quota).ok());
    let quota = quota.filter(|&quota| quota > 0)?;
    let period = resources.cpu_period_us.filter(|&period| period > 0)?;
    Some(quota % period == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const POD: &str = "pod5f2a60c1-d3b4-4e89-8f00-burstable";

    fn class(parent: &str, resources: Resources) -> QosClass {
        let pod = Pod { cgroup_parent: parent.to_owned(), ..Pod::default() };
        qos_class(&pod, &Container { resources, ..Container::default() }, &Ceilings::default())
    }

    fn cpus(shares: u64) -> Resources {
        Resources { cpu_shares: Some(shares), ..Resources::default() }
    }

    #[test]
    fn the_cgroup_of_a_pod_says_its_class() {
        for (parent, expected) in [
            (format!("/kubepods/{POD}"), QosClass::Lsr),
            (format!("/kubepods/burstable/{POD}"), QosClass::Ls),
            (format!("/kubepods/besteffort/{POD}"), QosClass::Be),
            ("kubepods-pod5f2a_burstable.slice".to_owned(), QosClass::Lsr),
            ("kubepods-burstable-pod5f2a.slice".to_owned(), QosClass::Ls),
            (
                "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod5f2a.slice"
                    .to_owned(),
                QosClass::Be,
            ),
            ("/system.slice/kubelet-kubepods-besteffort-pod5f.slice".to_owned(), QosClass::Be),
        ] {
            // A container's resources count for whole CPUs only.
            let resources = Resources { oom_score_adj: Some(7), ..cpus(2048) };
            assert_eq!(class(&parent, resources), expected, "{parent}");
        }
    }

    #[test]
    fn whole_cpus_are_reserved_in_guaranteed_pods_only() {
        let guaranteed = |resources| class("/kubepods/pod1", resources);
        for (shares, expected) in
            [(1024, QosClass::Lsr), (1536, QosClass::Ls), (2, QosClass::Ls), (1023, QosClass::Ls)]
        {
            assert_eq!(guaranteed(cpus(shares)), expected, "{shares}");
        }
        let quota = |quota| Resources {
            cpu_quota_us: Some(quota),
            cpu_period_us: Some(100_000),
            ..Resources::default()
        };
        assert_eq!(guaranteed(quota(200_000)), QosClass::Lsr);
        assert_eq!(guaranteed(quota(150_000)), QosClass::Ls);
        let many = Resources { cpu_shares: Some(SHARES_MAX), ..quota(30_050_000) };
        assert_eq!(guaranteed(many), QosClass::Ls, "300.5 CPUs have as many shares as 256");
        assert_eq!(class("/kubepods/burstable/pod1", cpus(1024)), QosClass::Ls);
    }

    #[test]
    fn without_a_cgroup_the_resources_decide() {
        let limits = Resources {
            cpu_quota_us: Some(200_000),
            cpu_period_us: Some(100_000),
            memory_limit_bytes: Some(1 << 30),
            ..cpus(2048)
        };
        for (resources, expected) in [
            (Resources::default(), QosClass::Be),
            (cpus(2), QosClass::Be),
            (cpus(1024), QosClass::Ls),
            (limits, QosClass::Lsr),
            (Resources { cpu_shares: Some(1024), ..limits }, QosClass::Ls),
            (Resources { oom_score_adj: Some(1000), ..limits }, QosClass::Be),
            (Resources { oom_score_adj: Some(2), ..limits }, QosClass::Ls),
            (Resources { oom_score_adj: Some(-997), ..cpus(4096) }, QosClass::Lsr),
        ] {
            assert_eq!(class("/docker", resources), expected, "{resources:?}");
        }
    }

    #[test]
    fn a_pod_labels_itself_no_better_than_it_is() {
        for (parent, resources, label, expected, is_noted) in [
            ("/kubepods/besteffort/pod1", cpus(2), "LSR", QosClass::Be, true),
            ("/kubepods/besteffort/pod1", cpus(2), "LSE", QosClass::Be, true),
            ("/kubepods/burstable/pod1", cpus(2048), "LSR", QosClass::Ls, true),
            ("/kubepods/burstable/pod1", cpus(2048), "LS", QosClass::Ls, false),
            ("/kubepods/pod1", cpus(2048), "LSR", QosClass::Lsr, false),
            ("/kubepods/pod1", cpus(2048), "BE", QosClass::Be, false),
            ("/kubepods/pod1", cpus(2048), "LS", QosClass::Ls, false),
        ] {
            let labels = [(QOS_LABEL.to_owned(), label.to_owned())].into();
            let pod = Pod { labels, cgroup_parent: parent.to_owned(), ..Pod::default() };
            let container = Container { resources, ..Container::default() };
            let class = qos_class(&pod, &container, &Ceilings::default());
            assert_eq!(
                (class, note(&pod, class).is_some()),
                (expected, is_noted),
                "{parent} {label}"
            );
        }
    }

    #[test]
    fn a_trusted_label_goes_first() {
        let labelled = |value: &str| Pod {
            labels: [(QOS_LABEL.to_owned(), value.to_owned())].into(),
            cgroup_parent: "/kubepods/besteffort/pod1".to_owned(),
            ..Pod::default()
        };
        let container = Container::default();
        let trusting = Ceilings { qos_label: true, ..Ceilings::default() };
        for (value, expected, is_noted) in [
            ("LSE", QosClass::Lsr, false),
            ("LSR", QosClass::Lsr, false),
            ("LS", QosClass::Ls, false),
            ("BE", QosClass::Be, false),
            ("", QosClass::Be, false),
            ("SYSTEM", QosClass::Be, false),
            ("system", QosClass::Be, true),
        ] {
            let pod = labelled(value);
            let class = qos_class(&pod, &container, &trusting);
            assert_eq!((class, note(&pod, class).is_some()), (expected, is_noted), "{value}");
        }
        let said = note(&labelled("a\nb"), QosClass::Be);
        let expected = "label koordinator.sh/qosClass is 'a\\u{a}b', which is not LSE, LSR, LS or BE: it counts as BE";
        assert_eq!(said.as_deref(), Some(expected));
    }

    proptest! {
        #[test]
        fn any_container_has_a_class(
            parent in "[/.a-f0-9-]{0,8}(kubepods|burstable|besteffort|pod|-|/|\\PC){0,6}",
            label in proptest::option::of(any::<String>()),
            shares in any::<Option<u64>>(),
            quota in any::<Option<i64>>(),
            period in any::<Option<u64>>(),
            memory in any::<Option<i64>>(),
            oom_score_adj in any::<Option<i64>>(),
        ) {
            let resources = Resources {
                cpu_shares: shares,
                cpu_quota_us: quota,
                cpu_period_us: period,
                memory_limit_bytes: memory,
                oom_score_adj,
            };
            let labels = label.map(|label| (QOS_LABEL.to_owned(), label)).into_iter().collect();
            let pod = Pod { labels, cgroup_parent: parent, ..Pod::default() };
            let container = Container { resources, ..Container::default() };
            let class = qos_class(&pod, &container, &Ceilings::default());
            prop_assert!([QosClass::Lsr, QosClass::Ls, QosClass::Be].contains(&class));
            let _ = note(&pod, class);
        }
    }
}
