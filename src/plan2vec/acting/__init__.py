"""From a map to actions: controller, agent, learned distance as reward, relabelled datasets."""
