"""Stands in for SMTP, SMS, FCM and Slack in demos and tests."""
