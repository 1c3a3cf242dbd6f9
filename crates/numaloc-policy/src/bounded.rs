//! Bounds on the part of a pod that is read.

use crate::{Pod, QOS_LABEL, VALUE_MAX, cut::cut};
use numaloc_api::{LABEL_KEY_MAX, LABEL_VALUE_MAX, LABELS_MAX};

impl Pod {
    /// The pod with as much of its labels and annotations as is read. A pod may have 256 KiB of annotations, and more
    /// of labels.
    pub fn bounded(mut self) -> Self {
        let is_ours =
            |key: &str| key.starts_with("numaloc.io/") || key.starts_with("koordinator.sh/");
        self.annotations.retain(|key, _| is_ours(key));
        // A character more than is read: then it is known to be too long.
        self.annotations.values_mut().for_each(|value| cut(value, VALUE_MAX + 4));
        let mut labels = 0;
        self.labels.retain(|key, value| {
            let fits = key.len() <= LABEL_KEY_MAX && value.len() <= LABEL_VALUE_MAX;
            labels += usize::from(fits);
            key == QOS_LABEL || (fits && labels <= LABELS_MAX)
        });
        if let Some(class) = self.labels.get_mut(QOS_LABEL) {
            cut(class, LABEL_VALUE_MAX);
        }
        self
    }
}
